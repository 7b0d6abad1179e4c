/* everwarp: WebAssembly processes and actors on a GPU, or on the CPU, from C.
 *
 * Ownership. A function that makes an object returns its status and stores the object where the last parameter points.
 * The caller owns the object and passes it once to the function that ends in _free or _close. Objects may be freed in any
 * order. Everything that a function gets from the caller (texts, arrays, bytes) is copied before the function returns.
 * A pointer that a function returns belongs to the object that it was asked of, and is valid until that object is freed.
 *
 * Errors. Every function returns EW_OK or another status; the objects are then not changed, and nothing is stored. The
 * message of the last error of this thread is ew_error_message(). No panic of the library crosses this border: it becomes
 * EW_PANIC. A null pointer where an object is needed is EW_ARGUMENT.
 *
 * Threads. Objects may be used by several threads at a time; only freeing one needs that no other thread uses it. An engine
 * must not be used after fork() in the child.
 */
#ifndef EVERWARP_H
#define EVERWARP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a call. */
typedef enum ew_status {
  EW_OK = 0,
  EW_ARGUMENT = 1, /* an argument is wrong */
  EW_DEVICE = 2,   /* the device cannot be opened */
  EW_LOAD = 3,     /* a module is refused */
  EW_START = 4,    /* an engine did not start, or has no room for a module */
  EW_SPAWN = 5,    /* processes were not started */
  EW_HOST = 6,     /* the engine has failed */
  EW_TIMEOUT = 7,  /* the time is over; processes run on, and late replies are dropped */
  EW_PANIC = 8,    /* the library has a mistake; the message says where */
  EW_GONE = 9,     /* an actor does not live */
  EW_NO_REPLY = 10 /* an ask ended without a reply; the message says why */
} ew_status;

/* Why a process ended. */
typedef enum ew_reason {
  EW_EXITED = 0,
  EW_TRAPPED = 1,
  EW_KILLED = 2,
  EW_OUT_OF_FUEL = 3,
  EW_OUT_OF_MEMORY = 4,
  EW_OTHER = 5
} ew_reason;

typedef struct ew_engine ew_engine;       /* a device and what is resident there */
typedef struct ew_module ew_module;       /* a WebAssembly module */
typedef struct ew_processes ew_processes; /* processes that were started together */
typedef struct ew_exits ew_exits;         /* how processes ended */
typedef struct ew_actors ew_actors;       /* a system of actors */
typedef struct ew_failures ew_failures;   /* why actors failed */

/* A directory that processes may use: its path here, and its name for them. */
typedef struct ew_dir {
  const char *path;
  const char *guest;
  uint32_t read_only; /* 0 or 1 */
} ew_dir;

/* What all processes of a call get. Zero it first: memset(&options, 0, sizeof options). */
typedef struct ew_options {
  const char *const *args; /* arguments after the module's name; {instance} is the number of the process */
  size_t arg_count;
  const char *const *env; /* NAME=VALUE */
  size_t env_count;
  const ew_dir *dirs;
  size_t dir_count;
  const uint8_t *input; /* standard input */
  size_t input_bytes;
  uint64_t fuel;         /* 0: no limit */
  uint64_t memory;       /* bytes of memory of each process; 0: the engine's default */
  uint64_t output_limit; /* bytes that are kept of each stream; 0: 1 MiB */
} ew_options;

/* How a process ended. The pointers belong to the ew_exits. */
typedef struct ew_exit {
  ew_reason reason;
  uint32_t code; /* with EW_EXITED */
  const uint8_t *output;
  size_t output_bytes;
  const uint8_t *errors; /* what it wrote to standard error */
  size_t error_bytes;
  double elapsed_s;
} ew_exit;

/* The id of an actor. It never names another one; 0 is none. */
typedef uint64_t ew_actor;

/* A WebAssembly module whose exports handle messages, and the name of its kind. */
typedef struct ew_actor_module {
  const char *kind;
  const uint8_t *bytes;
  size_t length;
} ew_actor_module;

/* The limits of a system. Zero it first; 0 stands for what the comment says. */
typedef struct ew_actor_options {
  uint32_t actors;      /* actors that live at a time; 0: 65,536 */
  uint32_t messages;    /* messages that wait at a time; 0: four for each of `actors` */
  uint32_t patience_ms; /* how long a message waits for room in a mailbox; 0: 10 s */
} ew_actor_options;

/* A field of a message to many actors: a word for each, or one for all. A word is the number itself, with zeros above
 * numbers of 32 bits; the bits of a float, as memcpy copies them; 0 or 1; or an ew_actor. */
typedef struct ew_column {
  const uint64_t *words;
  size_t count; /* 1, or as many as there are actors */
} ew_column;

/* Why an actor failed. The pointer belongs to the ew_failures. */
typedef struct ew_failure {
  ew_actor actor;
  const char *reason;
} ew_failure;

/* The version of the library, such as "0.1.0". */
const char *ew_version(void);
/* The message of this thread's last error, until its next call; "" if there was none. */
const char *ew_error_message(void);
/* How many objects exist that have not been freed. */
size_t ew_live_objects(void);

/* Opens a device: "auto", "cpu" or "cuda". */
ew_status ew_engine_open(const char *kind, ew_engine **engine);
/* Ends all processes and frees the device. Null is ignored. */
void ew_engine_close(ew_engine *engine);

ew_status ew_module_from_file(const char *path, ew_module **module);
ew_status ew_module_from_bytes(const char *name, const uint8_t *bytes, size_t length, ew_module **module);
void ew_module_free(ew_module *module);

/* Starts processes; options may be null. */
ew_status ew_start(ew_engine *engine, const ew_module *module, uint32_t instances, const ew_options *options,
                   ew_processes **processes);
/* Waits up to timeout_ms milliseconds, or without a limit if that is negative. The exits can be taken once. */
ew_status ew_processes_wait(ew_processes *processes, int64_t timeout_ms, ew_exits **exits);
/* Asks all of the processes to end. */
ew_status ew_processes_kill(ew_processes *processes);
/* Frees the handle. Processes that have not been waited for run on until the engine is closed. */
void ew_processes_free(ew_processes *processes);

/* Starts processes and waits for all of them. */
ew_status ew_run(ew_engine *engine, const ew_module *module, uint32_t instances, const ew_options *options,
                 ew_exits **exits);
size_t ew_exits_count(const ew_exits *exits);
ew_status ew_exits_get(const ew_exits *exits, size_t number, ew_exit *exit);
void ew_exits_free(ew_exits *exits);

/* Starts a system of actors with a kind for each module; options may be null. On a GPU it compiles for some seconds the
 * first time. A GPU runs one system at a time, and no processes next to it; it does not run all modules. If it cannot run
 * this system, an engine that was opened as "cuda" refuses with EW_START, and one that was opened as "auto" runs it on the
 * CPU. The system lives until it is closed, also when the engine is closed before. */
ew_status ew_actors_open(const ew_engine *engine, const ew_actor_module *modules, size_t count,
                         const ew_actor_options *options, ew_actors **actors);
/* Ends all actors. Null is ignored. */
void ew_actors_close(ew_actors *actors);
/* The engine that runs the actors, "cpu" or "cuda", and why, such as what keeps them from a GPU. The pointers belong to the
 * ew_actors; for null the text is "". */
const char *ew_actors_engine(const ew_actors *actors);
const char *ew_actors_why(const ew_actors *actors);
/* Launches count actors of a kind, all or none, and stores their ids, sorted. Messages in that order are fastest. */
ew_status ew_actors_spawn(ew_actors *actors, const char *kind, size_t count, ew_actor *ids);
/* Sends a message to each actor, and returns when all are in mailboxes. With EW_GONE those to actors that live were sent. */
ew_status ew_actors_tell(ew_actors *actors, const ew_actor *to, size_t count, const char *message,
                         const ew_column *fields, size_t field_count);
/* Asks each actor, up to 512 at a time, and stores the reply_words words of each reply in the order of the actors. These
 * have timeout_ms milliseconds, or the system's patience if that is negative. With an error nothing is stored, and the
 * message is that of the first ask without a reply. */
ew_status ew_actors_ask(ew_actors *actors, const ew_actor *to, size_t count, const char *message,
                        const ew_column *fields, size_t field_count, int64_t timeout_ms, uint64_t *replies,
                        size_t reply_words);
/* Waits until all messages have been handled. */
ew_status ew_actors_settle(ew_actors *actors);
/* Ends actors: after what is in their mailboxes, or now. Stores in *gone, unless it is null, how many did not live. */
ew_status ew_actors_stop(ew_actors *actors, const ew_actor *ids, size_t count, uint64_t *gone);
ew_status ew_actors_kill(ew_actors *actors, const ew_actor *ids, size_t count, uint64_t *gone);
/* Why actors failed: the last 64 reasons, the oldest first. */
ew_status ew_actors_failures(ew_actors *actors, ew_failures **failures);
size_t ew_failures_count(const ew_failures *failures);
ew_status ew_failures_get(const ew_failures *failures, size_t number, ew_failure *failure);
void ew_failures_free(ew_failures *failures);

#ifdef __cplusplus
}
#endif
#endif
