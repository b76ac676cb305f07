/* What was built. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

extern const char srv_version[];  /* "0.1.0" */
extern const char srv_revision[]; /* of the source, as git describes it */

#endif
