/* Lua includes this header and, with the macros that luaconf's place has (see lua.c), uses nothing of it. WASI has no
   setjmp. */
