// Prints what arrives: `arrivals timers`, or `arrivals watch SOURCES SIGNALS` (bits of both). In Rust, guests/arrivals does
// the same and prints the same.
#include <inttypes.h>
#include <stdio.h>

#include "everwarp_events.h"

#define MS 1000000

static int fail(const char *what) {
  fprintf(stderr, "arrivals: %s: %s\n", what, strerror(errno));
  return 1;
}

// One timer that expires once, one that does so again and again, one that is cancelled, and one that is refused.
static int timers(int events) {
  if (everwarp_set_timer(events, 1, 60 * MS, 0) || everwarp_set_timer(events, 2, 10 * MS, 10 * MS) ||
      everwarp_set_timer(events, 3, 600000LL * MS, 0) || everwarp_cancel_timer(events, 3) || everwarp_cancel_timer(events, 4) ||
      everwarp_set_timer(events, 5, MS, 99999))
    return fail("a request");
  int64_t times = 0;
  int once = 0;
  struct everwarp_event event;
  while (times < 10 || !once) {
    if (everwarp_next(events, &event) != 1) return fail("an event");
    if (event.kind == EVERWARP_TIMER && event.id == 1) {
      once = 1;
      printf("timer 1 expired %" PRId64 " time\n", event.a);
    } else if (event.kind == EVERWARP_TIMER && event.id == 2) {
      times += event.a;
    } else if (event.kind == EVERWARP_CANCELLED) {
      printf("timer %" PRIu32 " cancelled: %s\n", event.id, event.a ? "true" : "false");
    } else if (event.kind == EVERWARP_REFUSED) {
      printf("request %d for %" PRIu32 " refused: %" PRId64 "\n", event.flags, event.id, event.a);
    } else {
      printf("unexpected: %d\n", event.kind);
    }
    fflush(stdout);
  }
  puts("timer 2 expired ten times");
  return 0;
}

// Prints everything until `q` is pressed, SIGTERM comes, or a source ends.
static int watch(int events, uint32_t sources, uint64_t signals) {
  if (everwarp_watch(events, sources, signals)) return fail("a request");
  struct everwarp_event event;
  for (;;) {
    if (everwarp_next(events, &event) != 1) return fail("an event");
    int last = 0;
    switch (event.kind) {
      case EVERWARP_WATCHING:
        printf("watching %" PRId64 " %" PRId64 "\n", event.a, event.b);
        last = !event.a && !event.b;
        break;
      case EVERWARP_KEY:
        printf("key %#" PRIx32 " %d\n", event.id, event.flags);
        last = event.id == 'q';
        break;
      case EVERWARP_MOUSE:
        printf("mouse %" PRIu32 " %#x %" PRId64 " %" PRId64 "\n", event.id, event.flags, event.a, event.b);
        break;
      case EVERWARP_RESIZE: printf("size %" PRId64 " %" PRId64 "\n", event.a, event.b); break;
      case EVERWARP_SIGNAL:
        printf("signal %" PRIu32 " %" PRId64 "\n", event.id, event.a);
        last = event.id == 15;
        break;
      case EVERWARP_INPUT: printf("input %d %" PRIu32 " %" PRId64 "\n", event.flags, event.id, event.a); break;
      case EVERWARP_END:
        printf("end %" PRIu32 " %" PRId64 "\n", event.id, event.a);
        last = 1;
        break;
      default: printf("unexpected: %d\n", event.kind);
    }
    fflush(stdout);
    if (last) return 0;
  }
}

int main(int count, char **args) {
  int events = everwarp_events();
  if (events < 0) return fail("there are no events: start the program with --events");
  if (count == 2 && !strcmp(args[1], "timers")) return timers(events);
  if (count == 4 && !strcmp(args[1], "watch"))
    return watch(events, (uint32_t)strtoul(args[2], 0, 10), strtoull(args[3], 0, 10));
  fputs("arrivals: use timers, or watch SOURCES SIGNALS\n", stderr);
  return 2;
}
