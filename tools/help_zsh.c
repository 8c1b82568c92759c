#include "help.h"
void help_zsh(FILE *file)
{
    fputs("", file);
}
