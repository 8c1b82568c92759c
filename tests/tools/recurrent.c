/* Recurrent networks on the command line: what a config may ask for, and that every command works with them.
 */
#include "wrong_config.h"

#define RECURRENT(encoder, decoder)                                                                          \
    "model:\n  encoder: {type: recurrent" encoder "}\n  decoder: {type: recurrent" decoder "}"
#define NO_TRANSFORMER ", but has an effect only when model.encoder.type is transformer (it is recurrent)"
#define NOT_RECURRENT  ", but has an effect only when model.encoder.type is recurrent (it is transformer)"

Test(recurrent, keys_that_do_not_fit_are_reported_with_their_place)
{
    static const char *const cases[][2] = {
        {"model: {decoder: {attention: {score: local_p}}}",
         "4:31: model.decoder.attention.score is local_p, but a transformer has scaled_dot"},
        {"model: {encoder: {bidirectional: false}}",
         "4:19: model.encoder.bidirectional is false" NOT_RECURRENT},
        {"model: {lstm_forget_gate: 2}", "4:9: model.lstm_forget_gate is 2" NOT_RECURRENT},
        {"model: {init_rnn_orthogonal: true}", "4:9: model.init_rnn_orthogonal is true" NOT_RECURRENT},
        {RECURRENT(", num_heads: 8", ""), "5:30: model.encoder.num_heads is 8" NO_TRANSFORMER},
        {RECURRENT("", "") "\n  init_depth_scaling: true",
         "7:3: model.init_depth_scaling is true, but has an effect only when model.encoder.type is "
         "transformer or decoder_only (it is recurrent)"},
        {RECURRENT("", ", attention: {window: 5}"),
         "6:42: model.decoder.attention.window is 5, but has an effect only when model.decoder.type is "
         "transformer or decoder_only (it is recurrent)"},
        {"model: {decoder: {type: recurrent}}",
         "4:19: model.decoder.type is recurrent, but must equal model.encoder.type (transformer)"},
        {RECURRENT(", reverse: true", ""),
         "5:30: model.encoder.reverse is true, but needs model.encoder.bidirectional to be false"},
        {RECURRENT(", num_layers: 1", ", init_hidden: last"),
         "6:30: model.decoder.init_hidden is last, but needs encoder and decoder to agree in rnn_type, "
         "num_layers and hidden_size"},
        {RECURRENT("", ", attention: {score: dot}"),
         "6:42: model.decoder.attention.score is dot, but needs states of the same width: the encoder has "
         "128 (two directions), the decoder 64"},
        {RECURRENT("", ", init_hidden: zero, input_feeding: false, attention: {score: none}"),
         "6:30: model.decoder.init_hidden is zero, but with model.decoder.attention.score none and "
         "model.decoder.input_feeding false the decoder would know nothing of the source"},
        {RECURRENT("", ", embeddings: {embedding_dim: 32}") "\n  tied_softmax: true",
         "7:3: model.tied_softmax is true, but needs model.decoder.embeddings.embedding_dim to be "
         "hidden_size"},
        {RECURRENT("", "") "\n  lstm_forget_gate: 2",
         "7:3: model.lstm_forget_gate is 2, but has an effect only when model.encoder.rnn_type or "
         "model.decoder.rnn_type is lstm"},
        {RECURRENT("", ", attention: {local_window: 0}"),
         "6:56: model.decoder.attention.local_window is 0, but must be between 1 and 65536"},
        /* A recurrent encoder has no attention, and not every score has a key width or a window. */
        {RECURRENT(", attention: {key_width: 32}", ""),
         "5:42: model.encoder.attention.key_width is 32" NO_TRANSFORMER},
        {RECURRENT(", attention: {dropout: 0.2}", ""),
         "5:42: model.encoder.attention.dropout is 0.2" NO_TRANSFORMER},
        {RECURRENT("", ", attention: {score: general, key_width: 32}"),
         "6:58: model.decoder.attention.key_width is 32, but has an effect only when "
         "model.decoder.attention.score is scaled_dot, additive, concat or local_p (it is general)"},
        {RECURRENT("", ", attention: {score: none, dropout: 0.3}"),
         "6:55: model.decoder.attention.dropout is 0.3, but has an effect only when "
         "model.decoder.attention.score is scaled_dot, additive, dot, general, concat or local_p (it is "
         "none)"},
        {RECURRENT("", ", attention: {score: additive, local_window: 3}"),
         "6:59: model.decoder.attention.local_window is 3, but has an effect only when "
         "model.decoder.attention.score is local_p (it is additive)"},
    };
    enter(scratch("keys"));
    EXPECT_WRONG(CONFIG_BASE, cases);
}

/* Whole configs, as runs keep them, name every key: those of the other kind of network are no error at their
 * default. */
Test(recurrent, a_printed_config_can_be_read_again)
{
    enter(scratch("full"));
    write_text(".", "x.yaml",
               CONFIG_BASE RECURRENT(
                   ", rnn_type: lstm, bidirectional: false, reverse: true, embeddings: {embedding_dim: 20}",
                   ", rnn_type: lstm, init_hidden: last, input_feeding: false, attention: {score: concat}"));
    char *full = run_ok("qkv config x.yaml --full | tee y.yaml");
    cr_expect_str_eq(run_ok("qkv config y.yaml --full"), full);
    cr_expect(lacks(run_ok("qkv config y.yaml"), "num_heads"));
}

/* ---- trained ---- */

Test(recurrent, every_command_works_with_attention)
{
    enter(tiny_task("attends"));
    train_recurrent("run", "", ", attention: {score: local_p, local_window: 2}", 400);
    cr_expect_str_eq(run_ok("echo 'a d b' | qkv translate run --beam 3"), "A D B\n");
    const char *map = run_ok("qkv attention run 'a d b' --target 'A D B' -q --kind all");
    cr_expect(shows(map, "cross attention, layer 1") && shows(map, "\nD "));
    cr_expect(shows(run_ok("sed 's/.*/0-0/' dev.tsv >links && qkv evaluate run dev.tsv --links links"),
                    "layer 1, head 1"));
    cr_expect(shows(run_ok("qkv inspect run | grep -E '^  +(encoder|type|num_|rnn|bid|attention.score)'"),
                    "                             encoder      decoder\n"
                    "  type                       recurrent    recurrent\n"
                    "  num_layers                 1            1\n"
                    "  rnn_type                   gru          gru\n"
                    "  bidirectional              true\n"
                    "  attention.score                         local_p\n"));
    run_ok("qkv attribute run 'a d b' -m attention && qkv attribute run 'a d b' -m norms -o a.json");
    cr_expect(shows(run("qkv attribute run 'a d b' -m gradient").error, "computes step by step"));
    cr_expect(shows(run("qkv attribute run 'a d b'").error, "the score local_p takes no mask"));
    cr_expect(shows(run("qkv attribute run 'a d b' -m flow").error, "the network recurrent has none"));
    cr_expect(shows(run("qkv attribute run 'a d b' --lens").error, "records no states after layers"));
    /* Nothing is bound to a number of positions. */
    run_ok("yes a | head -600 | tr '\\n' ' ' | qkv translate run --max-length 5");
}

#define NO_ATTENTION                                                                                         \
    "qkv: this model has no attention (model.decoder.attention.score is none): its decoder gets only the "   \
    "final state of the encoder"

Test(recurrent, attention_of_a_model_without_attention_is_refused)
{
    static const char *const cases[][2] = {
        {"attention run a", "qkv: the model has no cross attention"},
        {"evaluate run dev.tsv --links links", "qkv: the model has no cross attention"},
        {"explain run a -t A", NO_ATTENTION},
        {"explain run a -t A --kind decoder", NO_ATTENTION},
        {"heads run dev.tsv", "qkv: run: the model has no attention, and so no heads"},
        {"translate run dev.tsv --without cross.1.1",
         "qkv: --without: there is no head 'cross.1.1': the model has no attention"},
        {"translate run dev.tsv --replace-unk",
         "qkv: run: --replace-unk needs cross attention, which the model of this run does not have"},
        {"translate run dev.tsv --alignment", "qkv: run: the model has no cross attention"},
    };
    enter(tiny_task("fixed"));
    train_recurrent("run", "", ", attention: {score: none}", 2);
    run_ok("sed 's/.*/0-0/' dev.tsv >links && cut -f1 dev.tsv | qkv translate run --beam 2");
    EXPECT_REFUSALS("qkv", cases);
}
