/* `attnd calibrate`: measure, and print or save. */
#ifndef SERVER_COST_COMMAND_H
#define SERVER_COST_COMMAND_H

/* The arguments are those after the command, NULL-terminated; returns the exit status. */
int srv_cost_calibrate(char *const *arguments);

#endif
