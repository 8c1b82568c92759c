/* Recurrent networks on the command line: what a config may ask for, and that every command works with them.
 */
#include "tiny_run.h"

#include <string.h>

static const char BASE[] =
    "name: x\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n";

static void expect_sentence(const char *folder, const char *model, const char *sentence)
{
    write_text(folder, "x.yaml", format("%smodel:\n%s", BASE, model));
    struct outcome outcome = run("cd '%s' && qkv config x.yaml", folder);
    cr_expect_eq(outcome.exit_code, 2, "%s is accepted", model);
    cr_expect_str_eq(outcome.output, "");
    cr_expect_str_eq(outcome.error, format("%s\n", sentence), "%s\ngot\n%swanted\n%s\n", model, outcome.error,
                     sentence);
}

#define RECURRENT(encoder, decoder)                                                                          \
    "  encoder: {type: recurrent" encoder "}\n  decoder: {type: recurrent" decoder "}\n"

Test(recurrent, keys_that_do_not_fit_are_reported_with_their_place)
{
    const char *folder = scratch("tools_recurrent_config");
    expect_sentence(
        folder, "  decoder: {attention: {score: local_p}}\n",
        "x.yaml:5:25: model.decoder.attention.score is local_p, but a transformer has scaled_dot");
    expect_sentence(folder, "  encoder: {bidirectional: false}\n",
                    "x.yaml:5:13: model.encoder.bidirectional is false, but has an effect only when "
                    "model.encoder.type is recurrent (it is transformer)");
    expect_sentence(folder, RECURRENT(", num_heads: 8", ""),
                    "x.yaml:5:30: model.encoder.num_heads is 8, but has an effect only when "
                    "model.encoder.type is transformer (it is recurrent)");
    expect_sentence(folder, RECURRENT("", ", attention: {window: 5}"),
                    "x.yaml:6:42: model.decoder.attention.window is 5, but has an effect only when "
                    "model.decoder.type is transformer (it is recurrent)");
    expect_sentence(
        folder, "  decoder: {type: recurrent}\n",
        "x.yaml:5:13: model.decoder.type is recurrent, but must equal model.encoder.type (transformer)");
    expect_sentence(
        folder, RECURRENT(", reverse: true", ""),
        "x.yaml:5:30: model.encoder.reverse is true, but needs model.encoder.bidirectional to be false");
    expect_sentence(folder, RECURRENT(", num_layers: 1", ", init_hidden: last"),
                    "x.yaml:6:30: model.decoder.init_hidden is last, but needs encoder and decoder to agree "
                    "in rnn_type, num_layers and hidden_size");
    expect_sentence(folder, RECURRENT("", ", attention: {score: dot}"),
                    "x.yaml:6:42: model.decoder.attention.score is dot, but needs states of the same width: "
                    "the encoder has 128 (two directions), the decoder 64");
    expect_sentence(
        folder, RECURRENT("", ", init_hidden: zero, input_feeding: false, attention: {score: none}"),
        "x.yaml:6:30: model.decoder.init_hidden is zero, but with model.decoder.attention.score none and "
        "model.decoder.input_feeding false the decoder would know nothing of the source");
    expect_sentence(folder, RECURRENT("", ", embeddings: {embedding_dim: 32}") "  tied_softmax: true\n",
                    "x.yaml:7:3: model.tied_softmax is true, but needs "
                    "model.decoder.embeddings.embedding_dim to be hidden_size");
    expect_sentence(folder, RECURRENT("", "") "  init_depth_scaling: true\n",
                    "x.yaml:7:3: model.init_depth_scaling is true, but has an effect only when "
                    "model.encoder.type is transformer (it is recurrent)");
    expect_sentence(folder, "  lstm_forget_gate: 2\n",
                    "x.yaml:5:3: model.lstm_forget_gate is 2, but has an effect only when model.encoder.type "
                    "is recurrent (it is transformer)");
    expect_sentence(folder, "  init_rnn_orthogonal: true\n",
                    "x.yaml:5:3: model.init_rnn_orthogonal is true, but has an effect only when "
                    "model.encoder.type is recurrent (it is transformer)");
    expect_sentence(folder, RECURRENT("", "") "  lstm_forget_gate: 2\n",
                    "x.yaml:7:3: model.lstm_forget_gate is 2, but has an effect only when "
                    "model.encoder.rnn_type or model.decoder.rnn_type is lstm");
    expect_sentence(
        folder, RECURRENT("", ", attention: {local_window: 0}"),
        "x.yaml:6:56: model.decoder.attention.local_window is 0, but must be between 1 and 65536");
}

/* A recurrent encoder has no attention, and not every score has a key width or a window. */
Test(recurrent, keys_of_attention_without_effect_are_refused)
{
    const char *folder = scratch("tools_recurrent_keys");
    static const char *const KIND =
        ", but has an effect only when model.encoder.type is transformer (it is recurrent)";
    expect_sentence(folder, RECURRENT(", attention: {key_width: 32}", ""),
                    format("x.yaml:5:42: model.encoder.attention.key_width is 32%s", KIND));
    expect_sentence(folder, RECURRENT(", attention: {dropout: 0.2}", ""),
                    format("x.yaml:5:42: model.encoder.attention.dropout is 0.2%s", KIND));
    expect_sentence(
        folder, RECURRENT("", ", attention: {score: general, key_width: 32}"),
        "x.yaml:6:58: model.decoder.attention.key_width is 32, but has an effect only when "
        "model.decoder.attention.score is scaled_dot, additive, concat or local_p (it is general)");
    expect_sentence(folder, RECURRENT("", ", attention: {score: none, dropout: 0.3}"),
                    "x.yaml:6:55: model.decoder.attention.dropout is 0.3, but has an effect only when "
                    "model.decoder.attention.score is scaled_dot, additive, dot, general, concat or local_p "
                    "(it is none)");
    expect_sentence(folder, RECURRENT("", ", attention: {score: additive, local_window: 3}"),
                    "x.yaml:6:59: model.decoder.attention.local_window is 3, but has an effect only when "
                    "model.decoder.attention.score is local_p (it is additive)");
}

/* Whole configs, as runs keep them, name every key: those of the other kind of network are no error at their
 * default. */
Test(recurrent, a_printed_config_can_be_read_again)
{
    const char *folder = scratch("tools_recurrent_full");
    write_text(
        folder, "x.yaml",
        format("%smodel:\n%s", BASE,
               RECURRENT(
                   ", rnn_type: lstm, bidirectional: false, reverse: true, embeddings: {embedding_dim: 20}",
                   ", rnn_type: lstm, init_hidden: last, input_feeding: false, attention: {score: concat}")));
    struct outcome full = run("cd '%s' && qkv config x.yaml --full", folder);
    cr_assert_eq(full.exit_code, 0, "%s", full.error);
    write_text(folder, "y.yaml", full.output);
    struct outcome again = run("cd '%s' && qkv config y.yaml --full", folder);
    cr_expect_str_eq(again.output, full.output);
    struct outcome shortened = run("cd '%s' && qkv config y.yaml", folder);
    cr_expect_eq(strstr(shortened.output, "num_heads"), NULL, "%s", shortened.output);
}

/* ---- trained ---- */

#define ATTENDS                                                                                              \
    "-s model.encoder.type=recurrent -s model.decoder.type=recurrent -s model.encoder.num_heads=4 "          \
    "-s model.decoder.num_heads=4 -s model.encoder.ff_size=256 -s model.decoder.ff_size=256 "                \
    "-s model.encoder.positions.max_length=512 -s model.decoder.positions.max_length=512 "

static void train(const char *folder, const char *settings)
{
    const char *trained = tiny_folder("recurrent");
    struct outcome outcome = run(
        "cd '%s' && cp '%s/tiny.yaml' '%s/train.tsv' . && qkv train tiny.yaml --threads 1 --quiet " ATTENDS
        "%s",
        folder, trained, trained, settings);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(recurrent, every_command_works_with_attention)
{
    const char *folder = scratch("tools_recurrent_attends");
    train(folder, "-s model.decoder.attention.score=local_p -s model.decoder.attention.local_window=2 "
                  "-s training.updates=150");
    struct outcome outcome = run("cd '%s' && echo 'one four two' | qkv translate run --beam 3", folder);
    cr_expect_str_eq(outcome.output, "uno cuatro dos\n", "%s%s", outcome.output, outcome.error);
    outcome = run("cd '%s' && qkv attention run 'one four two' --target 'uno cuatro dos' -q", folder);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_neq(strstr(outcome.output, "cross attention, layer 1"), NULL, "%s", outcome.output);
    cr_expect_neq(strstr(outcome.output, "\ncuatro "), NULL, "%s", outcome.output);
    char *links = format("%s", "");
    for (int i = 0; i < 20; i++) links = format("%s0-0 1-1\n", links);
    write_text(folder, "links", links);
    outcome = run("cd '%s' && qkv evaluate run train.tsv --links links", folder);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_neq(strstr(outcome.output, "layer 1, head 1"), NULL, "%s", outcome.output);
    outcome = run("cd '%s' && qkv inspect run", folder);
    static const char *const lines[] = {
        "                             encoder      decoder\n",
        "  type                       recurrent    recurrent\n",
        "  num_layers                 2            1\n",
        "  rnn_type                   gru          gru\n",
        "  bidirectional              true",
        "  attention.score                         local_p\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        cr_expect_not_null(strstr(outcome.output, lines[i]), "%s is not in\n%s", lines[i], outcome.output);
}

Test(recurrent, attention_of_a_model_without_attention_is_refused)
{
    const char *folder = scratch("tools_recurrent_fixed");
    train(folder, "-s model.decoder.attention.score=none");
    struct outcome outcome = run("cd '%s' && qkv attention run 'one four two'", folder);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "");
    cr_expect_str_eq(outcome.error, "qkv: the model has no cross attention\n", "%s", outcome.error);
    write_text(folder, "links", "0-0\n");
    outcome = run("cd '%s' && head -1 train.tsv > one.tsv && qkv evaluate run one.tsv --links links", folder);
    cr_expect_eq(outcome.exit_code, 2, "%s", outcome.output);
    cr_expect_str_eq(outcome.error, "qkv: the model has no cross attention\n", "%s", outcome.error);
    outcome = run("cd '%s' && qkv translate run --beam 2 train.tsv", folder);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}

/* Sentences of any length: nothing is bound to a number of positions. */
Test(recurrent, recurrent_models_have_no_longest_sentence)
{
    const char *folder = scratch("tools_recurrent_long");
    train(folder, "-s training.updates=1 -s testing.max_output_length=5");
    struct outcome outcome = run("cd '%s' && for i in $(seq 600); do printf 'one '; done > long && echo >> "
                                 "long && qkv translate run long",
                                 folder);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}
