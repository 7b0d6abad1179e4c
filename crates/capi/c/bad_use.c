/* Every wrong use is a status with a message. Prints one line for each. */
#include <everwarp.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, ew_status status) { printf("%s: %d: %s\n", what, status, ew_error_message()); }

/* (module (memory 1) (func (export "_start") (loop $forever (br $forever)))) */
static const uint8_t ENDLESS[] = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 10, 1, 6,
                                  '_', 's', 't', 'a', 'r', 't', 0, 0, 10, 9, 1, 7, 0, 3, 0x40, 12, 0, 11, 11};

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
  ew_processes_free(processes);
  ew_module_free(module);
  ew_engine_close(engine);
  ew_engine_close(NULL);
  return ew_live_objects() == 0 ? 0 : 3;
}
