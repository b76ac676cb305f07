/* `attnd init-model DIR`: writes a model of random weights, to try the daemon with. */
#ifndef SERVER_INIT_MODEL_H
#define SERVER_INIT_MODEL_H

/* Arguments after the command, NULL-terminated. Returns the exit status: 2 when they are wrong, 1
 * when the folder cannot be written. */
int srv_init_model(char *const *arguments);

#endif
