/* Runs SQL from standard input on a database in memory, and prints each row with `|` between the columns. */
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static int print_row(void *none, int columns, char **values, char **names) {
  (void)none;
  (void)names;
  for (int i = 0; i < columns; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
  putchar('\n');
  return 0;
}

int main(void) {
  size_t length = 0, room = 1 << 16;
  char *sql = malloc(room);
  for (size_t n; sql && (n = fread(sql + length, 1, room - length - 1, stdin)) > 0;) {
    length += n;
    if (length + 1 == room) sql = realloc(sql, room *= 2);
  }
  if (!sql) return 1;
  sql[length] = 0;
  sqlite3 *database;
  if (sqlite3_open(":memory:", &database)) return 1;
  char *error = NULL;
  int failed = sqlite3_exec(database, sql, print_row, NULL, &error);
  if (failed) fprintf(stderr, "sqlite: %s\n", error);
  sqlite3_close(database);
  return failed != 0;
}
