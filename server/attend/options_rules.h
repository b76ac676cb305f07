/* fields.def as a table, and what its readers share: options_json.c, options_query.c and
 * options_describe.c. Nobody else includes this. */
#ifndef SERVER_ATTEND_OPTIONS_RULES_H
#define SERVER_ATTEND_OPTIONS_RULES_H

#include "server/attend/options.h"

typedef enum srv_rule_kind {
    SRV_RULE_BOOL,
    SRV_RULE_INT,
    SRV_RULE_REAL,
    SRV_RULE_STRING,
    SRV_RULE_INTS,
} srv_rule_kind;

typedef struct srv_rule {
    const char *path;
    srv_rule_kind kind;
    double least, most;
    const char *backends;
    unsigned routes; /* SRV_FOR_... */
} srv_rule;

extern const srv_rule srv_rules[SRV_FIELD_COUNT];

/* "a number" and so on, by kind. */
extern const char *const srv_rule_expectations[];

/* Index of "params.window" for group "params" and member "window", or for no group and a path that
 * has none; -1 for one that the routes do not know. */
int srv_rule_find(unsigned routes, const char *group, const char *member);

/* The same for a whole path, as a query string spells it. */
int srv_rule_find_path(unsigned routes, const char *path);

/* Refuse a number outside the rule's range; `what` goes before it in the sentence. */
attn_status srv_rule_check_range(const srv_rule *f, double value, const char *what,
                                 attn_error *error);

/* Refuse a member that does not exist, listing those that do. */
attn_status srv_rule_unknown(unsigned routes, const char *group, const char *member,
                             attn_error *error);

/* A number as sentences print it: integers whole. */
const char *srv_rule_print_number(char to[32], double value);

/* A number in JSON's grammar, which a query string shares. */
attn_status srv_rule_scan_real(const char *text, double *value);

#endif
