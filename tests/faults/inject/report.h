/* What inject.c tells the test that loads it into a program, through a file that both map. */
#pragma once

struct fault_report {
    long allocations, calls; /* counted so far */
    long injected;           /* of them failed, cut short or killed */
    int refused;             /* errno: system calls cannot be intercepted here; 0: they can */
    char where[112];         /* the first that failed, such as "malloc at qkv+0x1a2b" */
};
