/* Runs the Lua program of a file, or of standard input. Lua needs setjmp for errors that a program catches; WASI has
   none, so every error ends the program with its message: luai_throw in lua.h. */
#include <stdio.h>
#include <stdlib.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

_Noreturn void everwarp_throw(lua_State *state) {
  const char *message = lua_tostring(state, -1);
  fprintf(stderr, "lua: %s\n", message ? message : "an error that is not a text");
  exit(1);
}

int main(int argc, char **argv) {
  lua_State *state = luaL_newstate();
  if (!state) return 1;
  luaL_openlibs(state);
  lua_createtable(state, argc, 0);
  for (int i = 1; i < argc; i++) {
    lua_pushstring(state, argv[i]);
    lua_rawseti(state, -2, i - 1);
  }
  lua_setglobal(state, "arg");
  if (luaL_loadfile(state, argc > 1 ? argv[1] : NULL)) everwarp_throw(state);
  lua_call(state, 0, 0);
  lua_close(state);
  return 0;
}
