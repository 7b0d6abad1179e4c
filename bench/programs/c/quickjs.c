/* Runs the JavaScript program from standard input; `print` writes a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quickjs.h"

static JSValue print(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  for (int i = 0; i < count; i++) {
    const char *text = JS_ToCString(context, values[i]);
    printf("%s%s", i ? " " : "", text ? text : "?");
    JS_FreeCString(context, text);
  }
  putchar('\n');
  return JS_UNDEFINED;
}

int main(void) {
  size_t most = 1 << 20;
  char *source = calloc(1, most + 1);
  JSRuntime *runtime = JS_NewRuntime();
  if (!source || !runtime) return 1;
  size_t length = fread(source, 1, most, stdin);
  JSContext *context = JS_NewContext(runtime);
  JSValue global = JS_GetGlobalObject(context);
  JS_SetPropertyStr(context, global, "print", JS_NewCFunction(context, print, "print", 1));
  JS_FreeValue(context, global);
  JSValue value = JS_Eval(context, source, length, "<stdin>", JS_EVAL_TYPE_GLOBAL);
  int failed = JS_IsException(value);
  if (failed) {
    const char *text = JS_ToCString(context, JS_GetException(context));
    fprintf(stderr, "quickjs: %s\n", text ? text : "an exception");
  }
  JS_FreeValue(context, value);
  JS_FreeContext(context);
  return failed;
}
