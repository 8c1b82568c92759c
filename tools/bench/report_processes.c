/* Prints exchanges between processes and forecasts of networks as tables or JSON, and draws the forecasts. */
#include "report.h"

#include "qkv/scalar_math.h"

#include <stdio.h>
#include <string.h>

void bench_report_exchange(struct bench_report *report, const struct bench_exchange *exchange)
{
    if (report->exchange_count < MAX_POINTS) report->exchange[report->exchange_count++] = *exchange;
}

void bench_report_network(struct bench_report *report, const struct bench_network *network)
{
    if (report->network_count < MAX_NETWORKS) report->network[report->network_count++] = *network;
}

/* ---- tables ---- */

static void print_exchange(const struct bench_exchange *e)
{
    char parameters[16], processor[16], step[16], messages[16], modelled[16], ratio[16], sent[16], others[16],
        latency[16], rate[16];
    printf("%-10s %9lld %8s %8s %8s %9s %9s %6s %8s %8s %8s %8s\n", e->work, (long long)e->processes,
           bench_format_number(e->parameters, parameters), bench_format_number(e->processor, processor),
           bench_format_number(e->step, step), bench_format_number(e->messages, messages),
           bench_format_number(e->modelled, modelled),
           bench_format_number(e->modelled > 0 ? e->messages / e->modelled : 0, ratio),
           bench_format_number(e->sent, sent), bench_format_number(e->sent_by_others, others),
           bench_format_number(1e3 * e->latency, latency), bench_format_number(e->rate, rate));
}

static void print_network(const struct bench_network *n, double first)
{
    char computing[16], updating[16], messages[16], step[16];
    printf("%-10s %6g %9lld %9s %8s %9s %8.2f %9s %10.1f %6.0f %%\n", n->work, n->gigabits,
           (long long)n->processes, bench_format_number(n->computing, computing),
           bench_format_number(n->updating, updating), bench_format_number(n->messages, messages), n->overlap,
           bench_format_number(n->step, step), (double)n->processes * first / n->step, 100 * first / n->step);
}

static void print_exchanges(struct bench_report *report)
{
    printf("%sMeasured: a step, ms, in processes that share this machine, with a batch each: processor time "
           "of the busiest,\ntime of the fastest, and of its messages alone; the latter also as modelled "
           "from two. MB of the parameters, "
           "and sent\nby process 0 and by another for a step. A small message, us, and the rate of large "
           "ones, MB per ms.\n\n%-10s %9s %8s %8s %8s %9s %9s %6s %8s %8s %8s %8s\n",
           report->has_output ? "\n" : "", "workload", "processes", "MB", "cpu", "elapsed", "messages",
           "modelled", "ratio", "sent", "others", "latency", "rate");
    for (int i = report->exchanges_printed; i < report->exchange_count; i++)
        print_exchange(&report->exchange[i]);
    report->has_output = true;
}

static void print_networks(struct bench_report *report)
{
    double first = 0;
    printf("%sModelled: a step, ms, on a network of so many Gbit/s, where each process has a machine and a "
           "batch: computing\nand updating as measured, messages as modelled, of which the share `overlap` "
           "costs no time. Times as many\nsentences per second as one process, and this as a part of the "
           "number of processes.\n\n"
           "%-10s %6s %9s %9s %8s %9s %8s %9s %10s %8s\n",
           report->has_output ? "\n" : "", "workload", "Gbit/s", "processes", "computing", "updating",
           "messages", "overlap", "step", "times", "part");
    for (int i = report->networks_printed; i < report->network_count; i++) {
        const struct bench_network *network = &report->network[i];
        if (network->processes == 1) first = network->step;
        print_network(network, first);
    }
    report->has_output = true;
}

/* ---- JSON ---- */

static void add_exchange(cJSON *list, const struct bench_exchange *e)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "workload", e->work);
    cJSON_AddNumberToObject(object, "processes", (double)e->processes);
    cJSON_AddNumberToObject(object, "parameters_mb", e->parameters);
    cJSON_AddNumberToObject(object, "cpu_ms", e->processor);
    cJSON_AddNumberToObject(object, "ms", e->step);
    cJSON_AddNumberToObject(object, "messages_ms", e->messages);
    cJSON_AddNumberToObject(object, "sent_mb", e->sent);
    cJSON_AddNumberToObject(object, "sent_by_others_mb", e->sent_by_others);
    cJSON_AddNumberToObject(object, "latency_ms", e->latency);
    cJSON_AddNumberToObject(object, "mb_per_ms", e->rate);
    if (e->modelled > 0) cJSON_AddNumberToObject(object, "modelled_messages_ms", e->modelled);
    cJSON_AddItemToArray(list, object);
}

static void add_network(cJSON *list, const struct bench_network *n)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "workload", n->work);
    cJSON_AddNumberToObject(object, "gigabits_per_second", n->gigabits);
    cJSON_AddNumberToObject(object, "processes", (double)n->processes);
    cJSON_AddNumberToObject(object, "computing_ms", n->computing);
    cJSON_AddNumberToObject(object, "updating_ms", n->updating);
    cJSON_AddNumberToObject(object, "modelled_messages_ms", n->messages);
    cJSON_AddNumberToObject(object, "overlap", n->overlap);
    cJSON_AddNumberToObject(object, "modelled_ms", n->step);
    cJSON_AddItemToArray(list, object);
}

void bench_report_end_processes(struct bench_report *report)
{
    if (!report->json && report->exchanges_printed < report->exchange_count) print_exchanges(report);
    if (!report->json && report->networks_printed < report->network_count) print_networks(report);
    for (; report->exchanges_printed < report->exchange_count; report->exchanges_printed++)
        add_exchange(report->exchanges, &report->exchange[report->exchanges_printed]);
    for (; report->networks_printed < report->network_count; report->networks_printed++)
        add_network(report->networks, &report->network[report->networks_printed]);
    fflush(stdout);
}

/* ---- the picture ---- */

static double binary_log(int64_t count)
{
    return qkv_scalar_log((double)count) / qkv_scalar_log(2);
}

/* Adds the line of one network, *i its first row, and sets *i behind its last. */
static void add_line(const struct bench_report *report, int *i, const char *name, int line,
                     struct bench_panel *panel)
{
    const struct bench_network *first = &report->network[*i];
    int count = 0;
    do {
        const struct bench_network *network = &report->network[(*i)++];
        panel->x[line][count] = binary_log(network->processes);
        panel->y[line][count++] = 100 * first->step / network->step;
    } while (*i < report->network_count && report->network[*i].processes > 1);
    panel->line[line] = (struct qkv_chart_line){name, count, panel->x[line], panel->y[line], true};
}

/* Adds what the measured messages would leave of a step whose processes had a machine each. */
static void add_measured(const struct bench_report *report, const struct bench_network *one, int line,
                         struct bench_panel *panel)
{
    int count = 0;
    for (int i = 0; i < report->exchange_count; i++) {
        const struct bench_exchange *exchange = &report->exchange[i];
        if (strcmp(exchange->work, one->work) != 0) continue;
        panel->x[line][count] = binary_log(exchange->processes);
        panel->y[line][count++] = 100 * one->step / (one->step + exchange->messages);
    }
    panel->line[line] = (struct qkv_chart_line){"messages measured, on one machine", count, panel->x[line],
                                                panel->y[line], false};
}

struct qkv_chart bench_network_panel(const struct bench_report *report, int *i, struct bench_panel *panel)
{
    const struct bench_network *one = &report->network[*i];
    add_line(report, i, "modelled, 10 Gbit/s", 0, panel);
    if (*i < report->network_count && !strcmp(report->network[*i].work, one->work))
        add_line(report, i, "modelled, 100 Gbit/s", 1, panel);
    add_measured(report, one, 2, panel);
    snprintf(panel->x_label, sizeof panel->x_label, "%s: doublings of the number of processes", one->work);
    return (struct qkv_chart){.x_label = panel->x_label,
                              .y_label = "speed per process, % of one",
                              .x_end = 10,
                              .y_end = 100,
                              .lines = panel->line,
                              .line_count = 3};
}
