/* process_* from /proc/self; see proc(5) for the fields. */
#include "server/process_metrics.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Seconds since the epoch at which the machine booted. */
static bool read_boot_time(double *boot_s)
{
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return false;
    char line[256];
    unsigned long long seconds = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, "btime %llu", &seconds) == 1;
    fclose(file);
    *boot_s = (double)seconds;
    return found;
}

static void update_from_stat(srv_metrics *metrics)
{
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return;
    char line[1024];
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    unsigned long long user_ticks, system_ticks, start_ticks, virtual_bytes;
    long long resident_pages;
    /* The second field is the program's name in parentheses, which may hold both kinds itself. */
    const char *after_name = strrchr(line, ')');
    if (!after_name ||
        sscanf(after_name + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
               "%*d %*d %*d %llu %llu %lld",
               &user_ticks, &system_ticks, &start_ticks, &virtual_bytes, &resident_pages) != 5)
        return;
    double ticks_per_s = (double)sysconf(_SC_CLK_TCK), boot_s;
    srv_metrics_set(metrics, SRV_METRIC_PROCESS_CPU_SECONDS,
                    (double)(user_ticks + system_ticks) / ticks_per_s, NULL);
    srv_metrics_set(metrics, SRV_METRIC_PROCESS_VIRTUAL_MEMORY, (double)virtual_bytes, NULL);
    srv_metrics_set(metrics, SRV_METRIC_PROCESS_RESIDENT_MEMORY,
                    (double)resident_pages * (double)sysconf(_SC_PAGESIZE), NULL);
    if (read_boot_time(&boot_s))
        srv_metrics_set(metrics, SRV_METRIC_PROCESS_START_TIME,
                        boot_s + (double)start_ticks / ticks_per_s, NULL);
}

static void update_open_fds(srv_metrics *metrics)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    int own = 1; /* the folder's descriptor was among them */
    srv_metrics_set(metrics, SRV_METRIC_PROCESS_OPEN_FDS, count - own, NULL);
}

void srv_process_metrics_update(srv_metrics *metrics)
{
    update_from_stat(metrics);
    update_open_fds(metrics);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        srv_metrics_set(metrics, SRV_METRIC_PROCESS_MAX_FDS, (double)files.rlim_cur, NULL);
}
