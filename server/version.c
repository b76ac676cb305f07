/* The Makefile defines both for this file alone, so that a new commit recompiles nothing else. */
#include "server/version.h"

const char srv_version[] = ATTND_VERSION;
const char srv_revision[] = ATTND_REVISION;
