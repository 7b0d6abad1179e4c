/* Accounts that pay each other: actors whose kind is a WebAssembly module. usage: actors MODULE.wasm ACCOUNTS [ENGINE] */
#include <everwarp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ew_status status) {
  if (status == EW_OK) return;
  fprintf(stderr, "actors: %s\n", ew_error_message());
  exit(1);
}

static uint8_t *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  uint8_t *bytes = malloc(1 << 20);
  *length = bytes ? fread(bytes, 1, 1 << 20, file) : 0;
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) return 2;
  size_t length = 0, count = (size_t)atoi(argv[2]);
  uint8_t *bytes = read_file(argv[1], &length);
  if (!bytes || count < 2) return 2;
  ew_engine *engine;
  ew_actors *bank;
  ew_failures *failures;
  check(ew_engine_open(argc == 4 ? argv[3] : "cpu", &engine));
  ew_actor_module account = {"account", bytes, length};
  check(ew_actors_open(engine, &account, 1, NULL, &bank));
  free(bytes);
  printf("on %s: %s\n", ew_actors_engine(bank), ew_actors_why(bank));

  /* Everyone gets 100, and pays its number modulo 10 to the next one. */
  ew_actor *all = calloc(count, sizeof *all), *next = calloc(count, sizeof *next);
  uint64_t *amounts = calloc(count, sizeof *amounts), *balances = calloc(count, sizeof *balances), sum = 0;
  check(ew_actors_spawn(bank, "account", count, all));
  for (size_t n = 0; n < count; n++) {
    next[n] = all[(n + 1) % count];
    amounts[n] = n % 10;
  }
  uint64_t hundred = 100;
  ew_column deposit = {&hundred, 1}, pay[] = {{next, count}, {amounts, count}};
  check(ew_actors_tell(bank, all, count, "deposit", &deposit, 1));
  check(ew_actors_tell(bank, all, count, "pay", pay, 2));
  check(ew_actors_settle(bank));
  check(ew_actors_ask(bank, all, count, "balance", NULL, 0, -1, balances, 1));
  for (size_t n = 0; n < count; n++) sum += balances[n];
  printf("%zu accounts with %" PRIu64 " in all; number 1 has %" PRIu64 "\n", count, sum, balances[1]);

  /* An account that pays more than it has fails, and the others go on. */
  uint64_t million = 1000000;
  ew_column too_much[] = {{&all[1], 1}, {&million, 1}};
  check(ew_actors_tell(bank, all, 1, "pay", too_much, 2));
  check(ew_actors_settle(bank));
  ew_status gone = ew_actors_ask(bank, all, 1, "balance", NULL, 0, -1, balances, 1);
  check(ew_actors_failures(bank, &failures));
  ew_failure failure;
  check(ew_failures_get(failures, 0, &failure));
  printf("status %d; %zu failure of number %d: %s\n", gone, ew_failures_count(failures), failure.actor != all[0],
         failure.reason);

  ew_failures_free(failures);
  ew_actors_close(bank);
  ew_engine_close(engine);
  free(balances);
  free(amounts);
  free(next);
  free(all);
  return ew_live_objects() == 0 ? 0 : 3;
}
