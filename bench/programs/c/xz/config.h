/* The configuration of the crate, without threads and without the header that wraps them, which needs signal masks. */
#include_next <config.h>
#undef MYTHREAD_POSIX
#define MYTHREAD_H
