// The guest `pipeline` in C: the first process sends the numbers below a limit, the second passes on the primes among
// them, the third counts and adds up what arrives. Each is this module again, with another first argument.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "everwarp.h"

enum { BATCH = 64 };

typedef struct {
  uint32_t to;
  uint32_t count;
  uint32_t numbers[BATCH];
} batches;

static void fail(const char *what, int error) {
  fprintf(stderr, "pipeline: %s: error %d\n", what, error);
  exit(EXIT_FAILURE);
}

// The answer, unless it is an error.
static int32_t must(const char *what, int32_t answer) {
  if (answer < 0) fail(what, answer);
  return answer;
}

static void flush(batches *out) {
  must("send", everwarp_send(out->to, out->numbers, out->count * sizeof *out->numbers));
  out->count = 0;
}

static void push(batches *out, uint32_t number) {
  out->numbers[out->count++] = number;
  if (out->count == BATCH) flush(out);
}

// How many numbers have arrived; 0 when the channel is closed.
static uint32_t take(uint32_t from, uint32_t numbers[BATCH]) {
  for (;;) {
    int32_t bytes = everwarp_receive(from, numbers, BATCH * sizeof *numbers);
    if (bytes == EVERWARP_CLOSED) return 0;
    // The last message of a process may have no numbers in it.
    if (must("receive", bytes) > 0) return (uint32_t)bytes / sizeof *numbers;
  }
}

static bool is_prime(uint32_t n) {
  if (n < 2 || (n > 2 && n % 2 == 0)) return false;
  for (uint32_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

static void generate(uint32_t limit) {
  batches out = {.to = 0};
  for (uint32_t number = 0; number < limit; number++) push(&out, number);
  flush(&out);
}

static void filter(void) {
  batches out = {.to = 1};
  uint32_t numbers[BATCH], count;
  while ((count = take(0, numbers)) > 0) {
    for (uint32_t i = 0; i < count; i++) {
      if (is_prime(numbers[i])) push(&out, numbers[i]);
    }
  }
  flush(&out);
}

static void sum(uint32_t limit) {
  uint32_t numbers[BATCH], count, primes = 0;
  uint64_t total = 0;
  while ((count = take(0, numbers)) > 0) {
    primes += count;
    for (uint32_t i = 0; i < count; i++) total += numbers[i];
  }
  printf("%" PRIu32 " primes below %" PRIu32 ", sum %" PRIu64 "\n", primes, limit, total);
}

static uint64_t child(const char *name, uint32_t limit, const uint32_t *ends, size_t count) {
  char arguments[64];
  int name_bytes = snprintf(arguments, sizeof arguments, "%s", name) + 1;
  char *text = arguments + name_bytes;
  int limit_bytes = snprintf(text, sizeof arguments - name_bytes, "%" PRIu32, limit) + 1;
  int64_t pid = everwarp_spawn("", 0, arguments, name_bytes + limit_bytes, ends, count);
  if (pid < 0) fail("spawn", (int)pid);
  return (uint64_t)pid;
}

static void pipeline(uint32_t limit) {
  everwarp_ends numbers, primes;
  must("channel", everwarp_channel(4, BATCH * sizeof(uint32_t), &numbers));
  must("channel", everwarp_channel(4, BATCH * sizeof(uint32_t), &primes));
  const uint32_t between[] = {numbers.receiver, primes.sender};
  const uint64_t children[] = {
      child("generate", limit, &numbers.sender, 1),
      child("filter", limit, between, 2),
      child("sum", limit, &primes.receiver, 1),
  };
  // A channel ends with its last sender.
  const uint32_t ends[] = {numbers.sender, numbers.receiver, primes.sender, primes.receiver};
  for (size_t i = 0; i < 4; i++) must("close", everwarp_close(ends[i]));
  for (size_t i = 0; i < 3; i++) {
    everwarp_status status;
    must("wait", everwarp_wait(children[i], &status));
    if (status.how != EVERWARP_EXITED || status.code != 0) fail("a child ended badly", (int)status.how);
  }
  puts("three processes ended");
}

int main(int argc, char **argv) {
  unsigned long limit = 10000;
  if (argc > 1) {
    char *end = argv[1];
    // strtoul takes signs and spaces, which are no number here.
    if (*end >= '0' && *end <= '9') limit = strtoul(argv[1], &end, 10);
    if (end == argv[1] || *end != 0 || limit > 100000000) {
      fputs("usage: pipeline [LIMIT], up to 100000000\n", stderr);
      return 2;
    }
  }
  if (strcmp(argv[0], "generate") == 0) {
    generate(limit);
  } else if (strcmp(argv[0], "filter") == 0) {
    filter();
  } else if (strcmp(argv[0], "sum") == 0) {
    sum(limit);
  } else {
    pipeline(limit);
  }
  return EXIT_SUCCESS;
}
