/* Included before each of Lua's files: what WASI lacks. */
#include <stdio.h>
#include <stdlib.h>

struct lua_State;
_Noreturn void everwarp_throw(struct lua_State *state);

#define LUAI_THROW(L, c) everwarp_throw(L)
#define LUAI_TRY(L, c, a) { a }
#define luai_jmpbuf int
#define tmpfile() ((FILE *)0)
#define tmpnam(name) ((char *)0)
#define L_tmpnam 20
#define system(command) (-1)
