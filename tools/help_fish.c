#include "help.h"
void help_fish(FILE *file)
{
    fputs("", file);
}
