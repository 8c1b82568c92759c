#include "written_runs.h"

void written_run(const char *name, int seed, const char *settings, const char *metrics)
{
    run_ok("mkdir %s && qkv config c.yaml --full -s name=%s -s training.random_seed=%d %s | "
           "sed 's,: \\(train\\|dev\\).tsv,: ../\\1.tsv,' >%s/config.yaml",
           name, name, seed, settings, name);
    write_text(".", format("%s/metrics.jsonl", name), metrics);
}

char *written_train_line(int update, double loss)
{
    return format(
        "{\"kind\":\"train\",\"update\":%d,\"epoch\":1,\"tokens\":%d,\"loss\":%g,\"cross_entropy\":%g,"
        "\"learning_rate\":0.001,\"gradient_norm\":0.5,\"seconds\":%d,\"tokens_per_second\":9}\n",
        update, 100 * update, loss + 1, loss, 2 * update);
}

char *written_validation_line(int update, double loss, double bleu)
{
    return format("{\"kind\":\"validation\",\"update\":%d,\"tokens\":%d,\"loss\":%g,\"token_accuracy\":0.5,"
                  "\"bleu\":%g,\"chrf\":20,\"best\":true,\"seconds\":%d}\n",
                  update, 100 * update, loss, bleu, 2 * update);
}
