// Asks for every import of everwarp.h and says for each whether the answer is what guests/GPU.md promises.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "everwarp.h"

static int wrong;

static void check(const char *what, bool right) {
  printf("%s: %s\n", what, right ? "as promised" : "WRONG");
  wrong += !right;
}

static void warps(void) {
  uint32_t lane = everwarp_lane(), together = everwarp_active();
  check("lane", lane < 32);
  check("active", (together >> everwarp_lane() & 1) == 1);
  check("ballot", (everwarp_ballot(1) >> everwarp_lane() & 1) == 1);
  uint64_t value = UINT64_C(0x123456789abcdef0) + everwarp_instance();
  check("shuffle", everwarp_shuffle(value, everwarp_lane()) == value);
  // A number of no promised kind, which has only to be answered.
  uint32_t warp = everwarp_warp();
  check("warp", warp == everwarp_warp());
}

static void channels(void) {
  everwarp_ends ends;
  char to[8] = "";
  check("channel", everwarp_channel(1, 4, &ends) == 0 && ends.sender != ends.receiver);
  check("channel that is too long", everwarp_channel(1, 5000, &ends) == EVERWARP_SIZE);
  check("try_receive from an empty one", everwarp_try_receive(ends.receiver, to, 8) == EVERWARP_AGAIN);
  check("try_send", everwarp_try_send(ends.sender, "one", 4) == 0);
  check("try_send to a full one", everwarp_try_send(ends.sender, "two", 4) == EVERWARP_AGAIN);
  check("receive with little room", everwarp_receive(ends.receiver, to, 3) == EVERWARP_SIZE);
  check("receive", everwarp_receive(ends.receiver, to, 8) == 4 && strcmp(to, "one") == 0);
  check("send of a long one", everwarp_send(ends.sender, "three", 6) == EVERWARP_SIZE);
  check("send by the other end", everwarp_send(ends.receiver, "", 1) == EVERWARP_HANDLE);
  check("send of what is nowhere", everwarp_send(ends.sender, (void *)~(uintptr_t)0, 4) == EVERWARP_MEMORY);
  check("send", everwarp_send(ends.sender, "two", 4) == 0);
  check("close", everwarp_close(ends.sender) == 0 && everwarp_close(ends.sender) == EVERWARP_HANDLE);
  check("try_receive", everwarp_try_receive(ends.receiver, to, 8) == 4 && strcmp(to, "two") == 0);
  check("receive from a closed one", everwarp_receive(ends.receiver, to, 8) == EVERWARP_CLOSED);
  check("close of the other end", everwarp_close(ends.receiver) == 0);
}

static int64_t spawn(const char *arguments, size_t bytes) {
  return everwarp_spawn("", 0, arguments, bytes, NULL, 0);
}

static void children(void) {
  everwarp_status status;
  int64_t pid = spawn("code", sizeof "code");
  check("spawn", pid >= 0 && (uint64_t)pid != everwarp_process());
  check("wait", everwarp_wait(pid, &status) == 0 && status.how == EVERWARP_EXITED && status.code == 7);
  check("wait again", everwarp_wait(pid, &status) == EVERWARP_PROCESS);
  pid = spawn("trap", sizeof "trap");
  check("a trap", everwarp_wait(pid, &status) == 0 && status.how == EVERWARP_TRAPPED);
  pid = spawn("loop", sizeof "loop");
  check("kill", everwarp_kill(pid) == 0 && everwarp_wait(pid, &status) == 0 && status.how == EVERWARP_KILLED);
  check("spawn of an unknown module", everwarp_spawn("none", 4, NULL, 0, NULL, 0) == EVERWARP_NAME);
}

int main(int argc, char **argv) {
  (void)argc;
  if (strcmp(argv[0], "code") == 0) return 7;
  if (strcmp(argv[0], "trap") == 0) __builtin_trap();
  if (strcmp(argv[0], "loop") == 0) {
    for (volatile uint32_t round = 0;; round++) {
    }
  }
  warps();
  channels();
  children();
  printf("instance %u: %d wrong\n", (unsigned)everwarp_instance(), wrong);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
