// The interface of actors for modules in C. docs/actor-modules.md says what each part means.
//
//   EVERWARP_ACTOR("mailbox 64")                        a line of the description
//   EVERWARP_ON(deposit) void on_deposit(uint64_t n)    handles the message `deposit`
//   EVERWARP_TELL(deposit) void tell_deposit(everwarp_actor to, uint64_t n);
//                                                       declares a function that sends it
#ifndef EVERWARP_ACTOR_H
#define EVERWARP_ACTOR_H

#include <stdint.h>

// An actor's id; 0 is no actor.
typedef uint64_t everwarp_actor;
// A timer of this actor.
typedef uint64_t everwarp_timer;
typedef uint64_t everwarp_kept;

// Why an ask has no reply.
enum {
  EVERWARP_GONE = 0,
  EVERWARP_ENDED = 1,
  EVERWARP_NO_REPLY = 2,
  EVERWARP_FAILED = 3,
  EVERWARP_DROPPED = 4,
  EVERWARP_TIMEOUT = 5,
};

#define EVERWARP_EXPORT(name) __attribute__((export_name(name)))
#define EVERWARP_IMPORT(module, name) __attribute__((import_module(module), import_name(name))) extern

// Exports: the function handles a message, takes a reply, or learns that there is none.
#define EVERWARP_ON(message) EVERWARP_EXPORT("on." #message)
#define EVERWARP_REPLY(message) EVERWARP_EXPORT("reply." #message)
#define EVERWARP_NOT_REPLIED(message) EVERWARP_EXPORT("failed." #message)

// Imports: `void f(everwarp_actor to, FIELDS)`, `int32_t f(everwarp_actor to, FIELDS)`,
// `void f(everwarp_actor to, int32_t number, FIELDS)`, `void f(everwarp_actor to, int32_t number, uint64_t nanos, FIELDS)`,
// `everwarp_timer f(uint64_t nanos, FIELDS)` twice, `int32_t f(everwarp_kept ask, FIELDS OF THE REPLY)`, and
// `everwarp_actor f(void)`.
#define EVERWARP_TELL(message) EVERWARP_IMPORT("everwarp:tell", #message)
#define EVERWARP_TRY_TELL(message) EVERWARP_IMPORT("everwarp:try_tell", #message)
#define EVERWARP_ASK(message) EVERWARP_IMPORT("everwarp:ask", #message)
#define EVERWARP_ASK_WITHIN(message) EVERWARP_IMPORT("everwarp:ask_within", #message)
#define EVERWARP_AFTER(message) EVERWARP_IMPORT("everwarp:after", #message)
#define EVERWARP_EVERY(message) EVERWARP_IMPORT("everwarp:every", #message)
#define EVERWARP_REPLY_KEPT(message) EVERWARP_IMPORT("everwarp:reply", #message)
#define EVERWARP_SPAWN(kind) EVERWARP_IMPORT("everwarp:spawn", #kind)

EVERWARP_IMPORT("everwarp:actor", "self") everwarp_actor everwarp_self(void);
EVERWARP_IMPORT("everwarp:actor", "sender") everwarp_actor everwarp_sender(void);
EVERWARP_IMPORT("everwarp:actor", "parent") everwarp_actor everwarp_parent(void);
EVERWARP_IMPORT("everwarp:actor", "asked") int32_t everwarp_asked(void);
EVERWARP_IMPORT("everwarp:actor", "forward") void everwarp_forward(everwarp_actor to);
EVERWARP_IMPORT("everwarp:actor", "keep") everwarp_kept everwarp_keep(void);
EVERWARP_IMPORT("everwarp:actor", "stop") void everwarp_stop(void);
EVERWARP_IMPORT("everwarp:actor", "stop_actor") void everwarp_stop_actor(everwarp_actor actor);
EVERWARP_IMPORT("everwarp:actor", "kill") void everwarp_kill(everwarp_actor actor);
EVERWARP_IMPORT("everwarp:actor", "cancel") int32_t everwarp_cancel(everwarp_timer timer);
EVERWARP_IMPORT("everwarp:actor", "fail") _Noreturn void everwarp_fail(void);
EVERWARP_IMPORT("everwarp:actor", "random") uint64_t everwarp_random(void);
EVERWARP_IMPORT("everwarp:actor", "now") uint64_t everwarp_now(void);

// A line of the description, at file scope.
#define EVERWARP_ACTOR(line) __asm__(".section .custom_section.everwarp.actor,\"\",@\n.asciz \"" line "\"\n.text\n");

#endif
