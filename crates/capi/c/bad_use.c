/* Every wrong use is a status with a message. Prints one line for each. */
#include <everwarp.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, ew_status status) { printf("%s: %d: %s\n", what, status, ew_error_message()); }

/* (module (memory 1) (func (export "_start") (loop $forever (br $forever)))) */
static const uint8_t ENDLESS[] = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 10, 1, 6,
                                  '_', 's', 't', 'a', 'r', 't', 0, 0, 10, 9, 1, 7, 0, 3, 0x40, 12, 0, 11, 11};

/* (module (func (export "on.f") (param i64) unreachable)) */
static const uint8_t HANDLER[] = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 5, 1, 0x60, 1, 0x7e, 0, 3, 2, 1, 0, 7, 8, 1, 4,
                                  'o', 'n', '.', 'f', 0, 0, 10, 5, 1, 3, 0, 0, 11};

int main(void) {
  ew_engine *engine = NULL;
  ew_module *module = NULL;
  ew_processes *processes = NULL;
  ew_exits *exits = NULL;
  show("kind", ew_engine_open("gpu", &engine));
  show("null", ew_engine_open(NULL, &engine));
  show("place", ew_engine_open("cpu", NULL));
  show("open", ew_engine_open("cpu", &engine));
  show("file", ew_module_from_file("missing.wasm", &module));
  show("bytes", ew_module_from_bytes("text", (const uint8_t *)"#!/bin/sh", 9, &module));
  show("module", ew_module_from_bytes("endless", ENDLESS, sizeof ENDLESS, &module));
  show("none", ew_start(engine, module, 0, NULL, &processes));
  show("start", ew_start(engine, NULL, 1, NULL, &processes));
  show("run", ew_start(engine, module, 2, NULL, &processes));
  show("wait", ew_processes_wait(processes, 20, &exits));
  show("kill", ew_processes_kill(processes));
  show("end", ew_processes_wait(processes, -1, &exits));
  ew_exit exit;
  show("get", ew_exits_get(exits, 1, &exit));
  printf("reason %d\n", exit.reason);
  show("number", ew_exits_get(exits, 2, &exit));
  ew_exits_free(exits);

  ew_options options;
  memset(&options, 0, sizeof options);
  options.fuel = 100000;
  show("fuel", ew_run(engine, module, 1, &options, &exits));
  show("get", ew_exits_get(exits, 0, &exit));
  printf("reason %d\n", exit.reason);
  options.env_count = 1;
  const char *env[] = {"NAME"};
  options.env = env;
  show("variable", ew_run(engine, module, 1, &options, NULL));
  options.env = NULL;
  show("array", ew_run(engine, module, 1, &options, NULL));
  ew_exits_free(exits);

  ew_actors *actors = NULL;
  ew_actor actor = 0;
  uint64_t word = 0, two[] = {1, 2};
  ew_column one = {&word, 1}, wrong = {two, 2};
  ew_actor_module kind = {"own", HANDLER, sizeof HANDLER};
  ew_actor_module none = {"text", (const uint8_t *)"#!/bin/sh", 9};
  show("no kinds", ew_actors_open(engine, NULL, 0, NULL, &actors));
  show("no module", ew_actors_open(engine, &none, 1, NULL, &actors));
  show("actors", ew_actors_open(engine, &kind, 1, NULL, &actors));
  show("no kind", ew_actors_spawn(actors, "other", 1, &actor));
  show("no place", ew_actors_spawn(actors, "own", 1, NULL));
  show("spawn", ew_actors_spawn(actors, "own", 1, &actor));
  show("no message", ew_actors_tell(actors, &actor, 1, "other", NULL, 0));
  show("no fields", ew_actors_tell(actors, &actor, 1, "f", NULL, 0));
  show("words", ew_actors_tell(actors, &actor, 1, "f", &wrong, 1));
  show("null field", ew_actors_tell(actors, &actor, 1, "f", NULL, 1));
  show("no reply", ew_actors_ask(actors, &actor, 1, "f", &one, 1, -1, two, 1));
  show("ends", ew_actors_ask(actors, &actor, 1, "f", &one, 1, -1, NULL, 0));
  show("gone", ew_actors_tell(actors, &actor, 1, "f", &one, 1));
  show("dead", ew_actors_kill(actors, &actor, 1, &word));
  printf("dead %d\n", (int)word);
  ew_failures *failures = NULL;
  show("failures", ew_actors_failures(actors, &failures));
  ew_failure failure;
  show("which", ew_failures_get(failures, 1, &failure));
  ew_failures_free(failures);
  ew_actors_close(actors);
  ew_actors_close(NULL);
  printf("no actors run on \"%s\": \"%s\"\n", ew_actors_engine(NULL), ew_actors_why(NULL));

  ew_processes_free(processes);
  ew_module_free(module);
  ew_engine_close(engine);
  ew_engine_close(NULL);
  return ew_live_objects() == 0 ? 0 : 3;
}
