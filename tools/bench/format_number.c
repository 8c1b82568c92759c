/* The form of numbers in tables. */
#include "report.h"

#include <stdio.h>

const char *bench_format_number(double number, char text[16])
{
    if (!(number > 0))
        snprintf(text, 16, "-");
    else if (number < 10)
        snprintf(text, 16, "%.3f", number);
    else if (number < 100)
        snprintf(text, 16, "%.2f", number);
    else
        snprintf(text, 16, "%.0f", number);
    return text;
}
