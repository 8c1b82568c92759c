/* Private: the processors that this process may use. */
#ifndef QKV_CORE_PROCESSORS_H
#define QKV_CORE_PROCESSORS_H

/* The number of processors that this process may run on, at least 1: those that taskset, a container or a batch system leave
 * it, as nproc counts them; where the system cannot tell, all that are online. */
int qkv_processors_available(void);

#endif
