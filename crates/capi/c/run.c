/* Runs processes of a module and prints what each wrote. usage: run MODULE.wasm INSTANCES */
#include <everwarp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ew_status status) {
  if (status == EW_OK) return;
  fprintf(stderr, "run: %s\n", ew_error_message());
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  ew_engine *engine;
  ew_module *module;
  ew_exits *exits;
  check(ew_engine_open("cpu", &engine));
  check(ew_module_from_file(argv[1], &module));

  const char *args[] = {"process {instance}"};
  ew_options options;
  memset(&options, 0, sizeof options);
  options.args = args;
  options.arg_count = 1;
  check(ew_run(engine, module, (uint32_t)atoi(argv[2]), &options, &exits));

  for (size_t n = 0; n < ew_exits_count(exits); n++) {
    ew_exit exit;
    check(ew_exits_get(exits, n, &exit));
    printf("%zu: code %u\n", n, exit.code);
    fwrite(exit.output, 1, exit.output_bytes, stdout);
  }
  ew_exits_free(exits);
  ew_module_free(module);
  ew_engine_close(engine);
  return ew_live_objects() == 0 ? 0 : 3;
}
