#include "help.h"
void help_bash(FILE *file)
{
    fputs("", file);
}
