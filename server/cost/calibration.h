/* The measured rates as one thing: taken anew, saved to a file, read from one. */
#ifndef SERVER_COST_CALIBRATION_H
#define SERVER_COST_CALIBRATION_H

#include "attn/machine.h"
#include "server/cost/rates.h"
#include "server/text.h"

#include <stdbool.h>

typedef struct srv_calibration {
    attn_isa isa; /* that it was measured with */
    attn_rates machine;
    srv_rates server;
} srv_calibration;

/* Measure with the machine's ISA, on an executor that has nothing else to do. Well below two
 * seconds. ATTN_NO_MEMORY. */
attn_status srv_calibration_measure(srv_calibration *calibration, const attn_machine *machine,
                                    srv_executor *executor, int workers, attn_error *error);

/* As a JSON object. */
void srv_calibration_print(const srv_calibration *calibration, srv_text *text);

/* Whether there is such a file; "" is none. */
bool srv_calibration_exists(const char *path);

/* Read a file that was saved on such a machine. Every rate has to be there, a number above 0; an
 * unknown key and another ISA are refused. */
attn_status srv_calibration_read(srv_calibration *calibration, const char *path, attn_isa isa,
                                 attn_error *error);

/* Write the file, whole or not at all. */
attn_status srv_calibration_save(const srv_calibration *calibration, const char *path,
                                 attn_error *error);

#endif
