/* UDP round trips on loopback between two processes without other work; usage: bare NUMBER BYTES */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu(int who)
{
    struct rusage used;
    (void)getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : 5000;
    const size_t size = argc > 2 ? (size_t)atoi(argv[2]) : 96;
    char bytes[2048] = {0};
    int ends[2];
    struct sockaddr_in at[2];
    if (size > sizeof bytes)
        return 2;
    for (int k = 0; k < 2; k++) {
        socklen_t length = sizeof at[k];
        memset(&at[k], 0, sizeof at[k]);
        at[k].sin_family = AF_INET;
        at[k].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ends[k] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(ends[k], (struct sockaddr *)&at[k], sizeof at[k]) != 0 ||
            getsockname(ends[k], (struct sockaddr *)&at[k], &length) != 0)
            return 1;
    }
    const pid_t child = fork();
    const int own = child == 0;
    const struct sockaddr *other = (const struct sockaddr *)&at[!own];
    const double began = now();
    for (int k = 0; k < n; k++) {
        if (!own)
            (void)sendto(ends[own], bytes, size, 0, other, sizeof at[0]);
        if (recv(ends[own], bytes, sizeof bytes, 0) < 0)
            return 1;
        if (own)
            (void)sendto(ends[own], bytes, size, 0, other, sizeof at[0]);
    }
    if (own)
        return 0;
    const double wall = now() - began;
    (void)waitpid(child, NULL, 0);
    printf("%-28s %8.1f %8.1f\n", "UDP in C", 1e6 * wall / n,
           1e6 * (cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN)) / n);
    return 0;
}
