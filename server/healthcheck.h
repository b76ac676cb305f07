/* `attnd healthcheck URL`: what a container's HEALTHCHECK runs, so that the image needs no curl. */
#ifndef SERVER_HEALTHCHECK_H
#define SERVER_HEALTHCHECK_H

/* GET the URL, http://host:port/path or unix:/socket:/path, within a few seconds. 0 when the
 * answer is 2xx; else 1, and a line on stderr that says what was found. */
int srv_healthcheck(const char *url);

#endif
