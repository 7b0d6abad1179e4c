// Events that arrive by themselves, for a process of everwarp that was started with --events: timers, the terminal's keys,
// mouse and size, signals, and input devices.
//
// All of them are read from one descriptor, which poll takes together with sockets. guests/EVENTS.md says what each of them
// means. The functions are static.
#ifndef EVERWARP_EVENTS_H
#define EVERWARP_EVENTS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What is read, and what is written: 32 bytes, little-endian.
struct everwarp_event {
  uint16_t kind;
  uint16_t flags;
  uint32_t id;
  uint64_t time;  // nanoseconds since 1970
  int64_t a;
  int64_t b;
};

_Static_assert(sizeof(struct everwarp_event) == 32, "events have 32 bytes");

// Kinds of events.
enum {
  EVERWARP_TIMER = 1,       // id: the timer; a: how often it has expired
  EVERWARP_KEY = 2,         // id: the key; flags: modifiers
  EVERWARP_MOUSE = 3,       // id: the button; flags: modifiers and what was done; a: column; b: row
  EVERWARP_RESIZE = 4,      // a: columns; b: rows
  EVERWARP_SIGNAL = 5,      // id: the signal; a: how often it has come
  EVERWARP_INPUT = 6,       // flags: type; id: code; a: value
  EVERWARP_END = 7,         // id: the sources that have ended; a: an error number, or 0
  EVERWARP_WATCHING = 8,    // a: sources; b: signals
  EVERWARP_CANCELLED = 9,   // id: the timer; a: whether it was set
  EVERWARP_REFUSED = 10,    // flags: the request's kind; id: its id; a: an error number
};

// Sources.
enum { EVERWARP_KEYS = 1, EVERWARP_MOUSES = 2, EVERWARP_SIZE = 4, EVERWARP_INPUTS = 8 };

// Flags of keys and of the mouse.
enum {
  EVERWARP_SHIFT = 1,
  EVERWARP_ALT = 2,
  EVERWARP_CONTROL = 4,
  EVERWARP_PRESS = 0x100,
  EVERWARP_RELEASE = 0x200,
  EVERWARP_MOVE = 0x400,
};

// Keys without a character. Enter is 13, Tab 9, Backspace 8 and Escape 27.
enum {
  EVERWARP_UNKNOWN = 0x110000,
  EVERWARP_UP,
  EVERWARP_DOWN,
  EVERWARP_RIGHT,
  EVERWARP_LEFT,
  EVERWARP_HOME,
  EVERWARP_LINE_END,
  EVERWARP_PAGE_UP,
  EVERWARP_PAGE_DOWN,
  EVERWARP_INSERT,
  EVERWARP_DELETE,
  EVERWARP_F1 = 0x110021,
};

// The descriptor of the events, or -1 with ENOENT if the command was started without --events.
static inline int everwarp_events(void) {
  const char *number = getenv("EVERWARP_EVENTS");
  if (number) return atoi(number);
  errno = ENOENT;
  return -1;
}

static inline int everwarp_ask(int events, uint16_t kind, uint32_t id, int64_t a, int64_t b) {
  struct everwarp_event request = {.kind = kind, .id = id, .a = a, .b = b};
  const char *bytes = (const char *)&request;
  for (size_t done = 0; done < sizeof request;) {
    ssize_t written = write(events, bytes + done, sizeof request - done);
    if (written < 0) return -1;
    done += (size_t)written;
  }
  return 0;
}

// Sets a timer that expires after this time in nanoseconds, and then after each period of at least 100,000; 0 is none.
static inline int everwarp_set_timer(int events, uint32_t id, int64_t after, int64_t period) {
  return everwarp_ask(events, 1, id, after, period);
}

// Takes a timer away. EVERWARP_CANCELLED says when no event of it can follow.
static inline int everwarp_cancel_timer(int events, uint32_t id) { return everwarp_ask(events, 2, id, 0, 0); }

// Watches sources, and signals as bits. EVERWARP_WATCHING says which of them there are.
static inline int everwarp_watch(int events, uint32_t sources, uint64_t signals) {
  return everwarp_ask(events, 3, 0, sources, (int64_t)signals);
}

// Waits for the next event: 1, 0 after the last, or -1 with an error.
static inline int everwarp_next(int events, struct everwarp_event *event) {
  char *bytes = (char *)event;
  for (size_t done = 0; done < sizeof *event;) {
    ssize_t got = read(events, bytes + done, sizeof *event - done);
    if (got <= 0) return (int)got;
    done += (size_t)got;
  }
  return 1;
}

#endif
