/* Models made of one number. */
#include "tests/inline/model.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WEIGHTS = 512,
    NAME_BYTES = 256
};

struct attn_model {
    attn_model_info info;
    attn_model_backend backend;
    char name[NAME_BYTES];
    int weights[WEIGHTS];
};

static atomic_int open_count, tries;
static sem_t *_Atomic held_entered, *_Atomic held_gate;

attn_model *__wrap_attn_model_open(const char *folder, const char *name, attn_error *error);
void __wrap_attn_model_close(attn_model *model);
const attn_model_info *__wrap_attn_model_info_of(const attn_model *model);

void stand_in_hold(sem_t *entered, sem_t *gate)
{
    held_entered = entered;
    held_gate = gate;
}

static void pass_gate(void)
{
    sem_t *entered = held_entered, *gate = held_gate;
    if (!entered)
        return;
    sem_post(entered);
    while (sem_wait(gate) != 0)
        ;
}

static bool read_generation(const char *folder, int *generation)
{
    char path[NAME_BYTES + 256];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool read = fscanf(file, "%d", generation) == 1;
    fclose(file);
    return read;
}

static attn_model *make(const char *name, int generation)
{
    attn_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    snprintf(model->name, sizeof model->name, "%s", name);
    for (int i = 0; i < WEIGHTS; i++)
        model->weights[i] = generation;
    model->backend = (attn_model_backend){.name = "exact", .trained = true};
    model->info = (attn_model_info){.name = model->name,
                                    .type = "layer",
                                    .hidden = 8,
                                    .layers = 1,
                                    .heads = 2,
                                    .kv_heads = 2,
                                    .head_dim = 4,
                                    .backend_count = 1,
                                    .backends = &model->backend,
                                    .mapped_bytes = sizeof model->weights};
    open_count++;
    return model;
}

attn_model *__wrap_attn_model_open(const char *folder, const char *name, attn_error *error)
{
    int generation;
    tries++;
    pass_gate();
    attn_model *model = read_generation(folder, &generation) ? make(name, generation) : NULL;
    if (!model)
        attn_error_set(error, ATTN_INVALID, "model", "%.100s/config.json holds no generation",
                       folder);
    return model;
}

void __wrap_attn_model_close(attn_model *model)
{
    if (!model)
        return;
    for (int i = 0; i < WEIGHTS; i++)
        model->weights[i] = -1 - i;
    open_count--;
    free(model);
}

const attn_model_info *__wrap_attn_model_info_of(const attn_model *model)
{
    return &model->info;
}

int stand_in_generation(const attn_model *model)
{
    for (int i = 1; i < WEIGHTS; i++)
        if (model->weights[i] != model->weights[0])
            return -1;
    return model->weights[0];
}

int stand_in_open_count(void)
{
    return open_count;
}

int stand_in_tries(void)
{
    return tries;
}
