// The imports of everwarp:gpu for C; guests/GPU.md says what each promises.
//
// Everything that can fail answers a number that is not negative, or one of the errors below.
#ifndef EVERWARP_H
#define EVERWARP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  EVERWARP_CLOSED = -1,   // the other side of the channel is closed
  EVERWARP_AGAIN = -2,    // it would have to wait
  EVERWARP_HANDLE = -3,   // no such end, or one of the other direction
  EVERWARP_MEMORY = -4,   // a pointer beyond the memory
  EVERWARP_SIZE = -5,     // too long
  EVERWARP_LIMIT = -6,    // a quota is used up
  EVERWARP_NAME = -7,     // no module has this name
  EVERWARP_PROCESS = -8,  // no such child
};

// How a child ended.
enum { EVERWARP_EXITED = 0, EVERWARP_TRAPPED = 1, EVERWARP_KILLED = 2, EVERWARP_OUT_OF_FUEL = 3 };

typedef struct {
  uint32_t sender;
  uint32_t receiver;
} everwarp_ends;

typedef struct {
  uint32_t how;   // EVERWARP_EXITED and so on
  uint32_t code;  // of one that has exited
} everwarp_status;

#define EVERWARP_IMPORT(name) __attribute__((import_module("everwarp:gpu"), import_name(name)))

EVERWARP_IMPORT("lane") uint32_t everwarp_lane(void);
EVERWARP_IMPORT("warp") uint32_t everwarp_warp(void);
EVERWARP_IMPORT("process") uint64_t everwarp_process(void);
EVERWARP_IMPORT("instance") uint32_t everwarp_instance(void);
EVERWARP_IMPORT("active") uint32_t everwarp_active(void);
EVERWARP_IMPORT("ballot") uint32_t everwarp_ballot(uint32_t vote);
EVERWARP_IMPORT("shuffle") uint64_t everwarp_shuffle(uint64_t value, uint32_t lane);

EVERWARP_IMPORT("channel") int32_t everwarp_channel(uint32_t capacity, uint32_t bytes, everwarp_ends *ends);
EVERWARP_IMPORT("send") int32_t everwarp_send(uint32_t sender, const void *message, size_t bytes);
EVERWARP_IMPORT("try_send") int32_t everwarp_try_send(uint32_t sender, const void *message, size_t bytes);
EVERWARP_IMPORT("receive") int32_t everwarp_receive(uint32_t receiver, void *to, size_t bytes);
EVERWARP_IMPORT("try_receive") int32_t everwarp_try_receive(uint32_t receiver, void *to, size_t bytes);
EVERWARP_IMPORT("close") int32_t everwarp_close(uint32_t end);

// The arguments are strings one behind the other, each with its zero. The answer is a pid, or negative.
EVERWARP_IMPORT("spawn")
int64_t everwarp_spawn(const char *name, size_t name_bytes, const char *arguments, size_t argument_bytes,
                       const uint32_t *ends, size_t count);
EVERWARP_IMPORT("wait") int32_t everwarp_wait(uint64_t pid, everwarp_status *status);
EVERWARP_IMPORT("kill") int32_t everwarp_kill(uint64_t pid);

#ifdef __cplusplus
}
#endif

#endif
