/* The flags of a command: a table that is read into a struct, so that help, limits and defaults
 * stand on one line each. A value is text first; the flag's reader turns it into a member. */
#ifndef SERVER_FLAGS_H
#define SERVER_FLAGS_H

#include "attn/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct srv_flags srv_flags;
typedef struct srv_flag srv_flag;

/* Read `text` into `member`; ATTN_INVALID says what was found and expected. */
typedef attn_status srv_flag_reader(const srv_flags *flags, const srv_flag *flag, const char *text,
                                    void *member, attn_error *error);

struct srv_flag {
    const char *name;      /* "kv_heads" is --kv-heads */
    const char *fallback;  /* read first */
    long long least, most; /* of numbers */
    const char *help;
    size_t offset; /* of the member */
    srv_flag_reader *read;
};

struct srv_flags {
    const char *command; /* begins every sentence */
    int count;
    const srv_flag *list;
    const char *(*name_at)(int index); /* their names, then NULL */
};

srv_flag_reader srv_flag_int;    /* int64_t, from least to most */
srv_flag_reader srv_flag_switch; /* bool; takes no value on the command line */
srv_flag_reader srv_flag_text;   /* const char *, borrowed from the arguments */

/* Cut the next item off a list with commas; false at its end. What is longer than `item` is cut
 * short, so that it is no name that is known. */
bool srv_flag_next_item(const char **list, char item[64]);

/* Read the arguments after the command, NULL-terminated, into `options`. `operand` takes the one
 * argument that is no flag, NULL when it is missing; with `operand` NULL there is none.
 * ATTN_INVALID names what is wrong, and the nearest flag that is known. */
attn_status srv_flags_read(const srv_flags *flags, void *options, const char **operand,
                           char *const *arguments, attn_error *error);

/* One line a flag. */
void srv_flags_help(const srv_flags *flags, FILE *out);

#endif
