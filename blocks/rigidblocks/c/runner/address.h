/* Addresses of the internet protocol as text, such as 127.0.0.1:5005. */

#ifndef RB_ADDRESS_H
#define RB_ADDRESS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* 0, and the address, where a text is one; else -1. */
static inline int parse_address(const char *text, struct sockaddr_in *address)
{
    char host[64], *end;
    const char *colon = strrchr(text, ':');
    memset(address, 0, sizeof *address);
    if (!colon || colon - text >= (ptrdiff_t)sizeof host)
        return -1;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    const long port = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || port < 0 || port > 65535)
        return -1;
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? 0 : -1;
}

#endif
