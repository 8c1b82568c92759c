/* A network as a program outside the library makes it, with public headers only: two layers of attention with one head
 * each, to the words before and to the source, and a dense layer. */
#pragma once

#include "support.h"

/* The network, called `name`; the same interface for the same text. It has a setting `gain`, 1 at first, of 0.5 to 2. */
struct qkv_network_interface own_network(const char *name);

/* Registers the network `own`, once. */
void own_network_register(void);
