/* Where actors run on a machine with a GPU: one line for each system or error. usage: places MODULE.wasm */
#include <everwarp.h>
#include <stdio.h>
#include <stdlib.h>

static void show(const char *what, ew_status status) { printf("%s: %d: %s\n", what, status, ew_error_message()); }

/* (module (memory 1) (func (export "_start"))) */
static const uint8_t SHORT[] = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 10, 1, 6,
                                '_', 's', 't', 'a', 'r', 't', 0, 0, 10, 4, 1, 2, 0, 11};

/* (module (func $f (export "on.f") (param i64) (call $f (local.get 0)))), which a GPU cannot run */
static const uint8_t CIRCLE[] = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 5, 1, 0x60, 1, 0x7e, 0, 3, 2, 1, 0, 7, 8, 1, 4,
                                 'o', 'n', '.', 'f', 0, 0, 10, 8, 1, 6, 0, 0x20, 0, 0x10, 0, 11};

static ew_actor_module account, circle = {"circle", CIRCLE, sizeof CIRCLE};

/* Opens a system and says where it runs, or why it does not. */
static ew_actors *open_system(const char *what, const ew_engine *engine, const ew_actor_module *module) {
  ew_actors *actors = NULL;
  show(what, ew_actors_open(engine, module, 1, NULL, &actors));
  if (actors) printf("%s on %s: %s\n", what, ew_actors_engine(actors), ew_actors_why(actors));
  return actors;
}

static void run_process(const char *what, ew_engine *engine, const ew_module *module) {
  ew_exits *exits = NULL;
  show(what, ew_run(engine, module, 1, NULL, &exits));
  ew_exits_free(exits);
}

/* The GPU has one system at a time, and no processes next to it. */
static void use(const char *kind, const ew_module *module) {
  ew_engine *engine = NULL;
  printf("engine %s\n", kind);
  show("open", ew_engine_open(kind, &engine));
  ew_actors_close(open_system("circle", engine, &circle));
  ew_actors *first = open_system("first", engine, &account);
  ew_actors_close(open_system("second", engine, &account));
  run_process("process next to actors", engine, module);
  ew_actors_close(first);
  ew_actors_close(open_system("third", engine, &account));
  run_process("process", engine, module);
  ew_actors_close(open_system("next to processes", engine, &account));
  ew_engine_close(engine);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  FILE *file = fopen(argv[1], "rb");
  uint8_t *bytes = malloc(1 << 20);
  if (!file || !bytes) return 2;
  account.kind = "account";
  account.bytes = bytes;
  account.length = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  ew_module *module = NULL;
  show("module", ew_module_from_bytes("short", SHORT, sizeof SHORT, &module));
  use("cuda", module);
  use("auto", module);
  use("cpu", module);
  ew_module_free(module);
  free(bytes);
  return ew_live_objects() == 0 ? 0 : 3;
}
