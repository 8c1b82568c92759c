/* qkv-bench -m exchange and -m processes: what is measured in several processes, and that the forecast follows from it. Times are
 * read but not judged. */
#include "json.h"
#include "mpirun.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static cJSON *json_of(struct outcome outcome)
{
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    return json_parsed(outcome.output);
}

/* Of n processes none sends more than 2 (n - 1) / n of the parameters' size for a step, and little else. */
static void check_exchange(const cJSON *row, int processes)
{
    double parameters = json_number(row, "parameters_mb"),
           max = 2.0 * (processes - 1) / processes * parameters;
    cr_expect_eq(json_number(row, "processes"), processes);
    cr_expect_float_eq(json_number(row, "sent_mb"), max, 0.01 * max);
    cr_expect_float_eq(json_number(row, "sent_by_others_mb"), max, 0.01 * max);
    static const char *const times[] = {"cpu_ms", "ms", "messages_ms", "latency_ms", "mb_per_ms"};
    for (int i = 0; i < 5; i++) cr_expect_gt(json_number(row, times[i]), 0, "%s", times[i]);
}

Test(bench_processes, exchange)
{
    cJSON *json =
        json_of(run("%s -n 3 '%s' toy -m exchange --steps 1 --seconds 0 --json", mpirun(), QKV_BENCH));
    const cJSON *rows = cJSON_GetObjectItem(json, "exchange");
    cr_assert_eq(cJSON_GetArraySize(rows), 1);
    check_exchange(cJSON_GetArrayItem(rows, 0), 3);
    cJSON_Delete(json);
    cr_expect(
        refused(run("'%s' toy -m exchange", QKV_BENCH),
                "qkv: exchange is measured in several processes: mpirun -n 2 qkv-bench toy -m exchange"));
}

/* The sums of gradients, and all messages of a step, ms, as the README of the benchmarks says. */
static double sums(double n, double megabytes, double latency, double rate, double adding)
{
    double pieces = ceil(megabytes / 4.194304);
    return ceil(log2(n)) * (pieces * latency + megabytes / rate + megabytes * adding);
}

static double messages(double n, double megabytes, double latency, double rate, double adding)
{
    double pieces = ceil(megabytes / 4.194304);
    double rounds = ceil(megabytes / (n * 4.194304));
    double broadcast = n == 2 ? pieces * latency + megabytes / rate
                              : rounds * 2 * (n - 1) * latency + 2 * (n - 1) / n * megabytes / rate;
    return n == 1 ? 0 : broadcast + sums(n, megabytes, latency, rate, adding) + (n - 1) * latency;
}

static void check_networks(const cJSON *json)
{
    const cJSON *networks = cJSON_GetObjectItem(json, "networks"),
                *exchange = cJSON_GetObjectItem(json, "exchange");
    const cJSON *two = cJSON_GetArrayItem(exchange, 0);
    double parameters = json_number(two, "parameters_mb"), latency = json_number(two, "latency_ms"),
           rate = json_number(two, "mb_per_ms");
    double adding =
        fmax(0, json_number(two, "messages_ms") - messages(2, parameters, latency, rate, 0)) / parameters;
    for (int i = 0; i < 3; i++) {
        const cJSON *row = cJSON_GetArrayItem(exchange, i);
        check_exchange(row, 2 + i);
        cr_expect_float_eq(json_number(row, "modelled_messages_ms"),
                           messages(2 + i, parameters, latency, rate, adding), 1e-9);
    }
    cr_assert_eq(cJSON_GetArraySize(networks), 22);
    for (int i = 0; i < 22; i++) {
        const cJSON *row = cJSON_GetArrayItem(networks, i);
        double n = json_number(row, "processes"), gigabits = i < 11 ? 10 : 100,
               overlap = json_number(row, "overlap"),
               expected = messages(n, parameters, latency + 0.02, fmin(rate, gigabits / 8), adding);
        cr_expect_eq(n, 1 << i % 11);
        cr_expect_eq(json_number(row, "gigabits_per_second"), gigabits);
        cr_expect_float_eq(json_number(row, "modelled_messages_ms"), expected, 1e-9);
        cr_expect_geq(overlap, 0);
        cr_expect_leq(overlap * expected, 1e-9 + 2.0 / 3 * json_number(row, "computing_ms"));
        cr_expect_leq(overlap * expected,
                      1e-9 + sums(n, parameters, latency + 0.02, fmin(rate, gigabits / 8), adding));
        cr_expect_float_eq(json_number(row, "modelled_ms"),
                           json_number(row, "computing_ms") + json_number(row, "updating_ms") +
                               (1 - overlap) * expected,
                           1e-9);
    }
}

Test(bench_processes, forecast)
{
    const char *launcher = mpirun(), *folder = scratch("forecast");
    cJSON *json = json_of(
        run("'%s' toy -m processes --launcher '%s' --steps 1 --seconds 0 --json", QKV_BENCH, launcher));
    check_networks(json);
    cJSON_Delete(json);
    struct outcome outcome =
        run("cd '%s' && '%s' toy -m processes --launcher '%s' --steps 1 --seconds 0 -o x.svg", folder,
            QKV_BENCH, launcher);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_eq(strncmp(outcome.output, "Measured: ", 10), 0);
    cr_expect_not_null(strstr(outcome.output, "\n\nModelled: "));
    const char *svg = read_file(format("%s/x.svg", folder), NULL);
    cr_expect(svg && strstr(svg, ">modelled, 10 Gbit/s<") &&
              strstr(svg, ">messages measured, on one machine<"));
}

Test(bench_processes, mistakes_are_refused)
{
    cr_expect(
        refused(run("'%s' '%s/configs/toy_en_es.yaml' -m exchange", QKV_BENCH, QKV_SOURCE_DIR),
                format("qkv: %s/configs/toy_en_es.yaml: exchange and processes measure built-in workloads",
                       QKV_SOURCE_DIR)));
    struct outcome outcome = run("'%s' toy -m processes --launcher false --steps 1 --seconds 0", QKV_BENCH);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_not_null(strstr(outcome.error, "ended with status 1: processes needs qkv with Open MPI"), "%s",
                       outcome.error);
    cr_expect(
        refused(run("'%s' toy -m processes -m threads -o x.svg", QKV_BENCH),
                "qkv: --output draws processes into a picture of their own: leave out scaling and threads"));
}

/* networks.sh between namespaces, where they are permitted; otherwise its sentence, and no namespace is left. */
Test(bench_processes, networks)
{
    mpirun();
    const char *script = QKV_SOURCE_DIR "/tools/bench/networks.sh", *folder = scratch("networks");
    struct outcome outcome = run("'%s'", script);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strncmp(outcome.error, "Usage: ", 7), 0, "%s", outcome.error);
    run_ok("mkdir '%s/bin' && printf '#!/bin/sh\\necho 1000\\n' > '%s/bin/id' && chmod +x '%s/bin/id'",
           folder, folder, folder);
    outcome = run("PATH='%s/bin':$PATH '%s' '%s'", folder, script, QKV_BENCH);
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_not_null(strstr(outcome.error, ": nothing was measured\n"), "%s", outcome.error);
    outcome = run("STEPS=1 SECONDS_EACH=0 '%s' '%s' toy 1gbit:0", script, QKV_BENCH);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    if (!strstr(outcome.error, ": nothing was measured\n"))
        cr_expect(
            strstr(outcome.output, "Links of 1gbit, delay 0\n") &&
                (strstr(outcome.output, "\ntoy                4 ") || strstr(outcome.output, "left out")),
            "%s", outcome.output);
    cr_expect_str_empty(run("ip netns list | grep qkv").output);
}
