/* What a request reads and prints, counted; forecast.h has what that takes. */
#ifndef SERVER_COST_TRANSFER_H
#define SERVER_COST_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct srv_transfer {
    bool model;                          /* of a loaded model, else a raw call */
    bool json_in, json_out;              /* else safetensors */
    double number_bytes, base64_bytes;   /* of a JSON body */
    double stored_floats;                /* of a safetensors body */
    double converted_floats;             /* those of them that are not float32 */
    int64_t slices;                      /* that the body is read in, one after the other */
    double out_floats;                   /* of the answer */
    double number_floats, base64_floats; /* those of them that are printed so */
    int64_t pieces;                      /* that the answer is printed in, in any order */
} srv_transfer;

#endif
