/* The page of a run in a second browser: what one does in it gives the numbers of the command line. */
#include "firefox.h"

#define LEFT_ARROW "\ue012"
#define END_KEY    "\ue010"

/* The translation that the page shows is that of a command. */
static void expect_translation(struct firefox *firefox, const char *sentence, const char *options)
{
    char *words = run_ok("echo '%s' | qkv translate run -q --beam 1 %s", sentence, options);
    words[strcspn(words, "\n")] = '\0';
    firefox_wait(firefox, format("at('target').textContent === '%s' && "
                                 "!document.body.classList.contains('waiting')",
                                 words));
}

Test(page_firefox, translates_looks_slides_silences_and_trains, .timeout = 600)
{
    skip_without_firefox();
    const char *folder = enter(tiny_task("firefox"));
    run_ok("qkv train c.yaml --quiet -s training.snapshots=3 && "
           "qkv page run --numbers float32 --checkpoint last --sentence 'a b'");
    struct firefox *firefox = firefox_open(folder, format("%s/page.html", folder), "head=encoder-1-2");
    expect_translation(firefox, "a b", "--checkpoint last");
    firefox_type(firefox, "source", " c a");
    expect_translation(firefox, "a b c a", "--checkpoint last");
    cr_expect_str_eq(firefox_value(firefox, "at('map-title').textContent"),
                     "Encoder attention, layer 1, head 2");
    firefox_click(firefox, "silence-cross-1-1");
    expect_translation(firefox, "a b c a", "--checkpoint last --without cross.1.1");
    cr_expect_str_eq(firefox_value(firefox, "at('silent').textContent"),
                     "silent: cross attention, layer 1, head 1");
    firefox_click(firefox, "speak");
    expect_translation(firefox, "a b c a", "--checkpoint last");
    firefox_type(firefox, "learning", LEFT_ARROW);
    firefox_wait(firefox, "/^update [0-9]+, /.test(at('moment').textContent)");
    char *moment = firefox_value(firefox, "at('moment').textContent.match(/[0-9]+/)[0]");
    cr_expect_str_neq(moment, "20");
    firefox_type(firefox, "learning", END_KEY);
    firefox_wait(firefox, "at('moment').textContent.startsWith('update 20, ')");
    expect_translation(firefox, "a b c a", "--checkpoint last");
    firefox_wait(firefox, "(at('train').open = true, !at('train-go').disabled)");
    firefox_click(firefox, "train-go");
    firefox_wait(firefox, "/^update [1-9][0-9]+, loss [0-9.]+$/.test(at('train-update').textContent)");
    cr_expect_str_empty(
        firefox_value(firefox, "at('message').textContent + at('train-message').textContent"));
    firefox_close(firefox);
}
