/* The page at the width of a phone and of a laptop, light and dark: nothing is wider than the window, and axe-core finds no
 * violation of WCAG 2.2 AA. QKV_AXE names its axe.min.js; tools/nightly.sh gets it from npm. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Everything that the page can show at once: the best translations, a silent head and a silent word, the steps, the table of heads. */
static void opened(void)
{
    enter(tiny_task("accessible"));
    browser_open_run("-s training.snapshots=3", "--sentence 'a b c' --pairs dev.tsv",
                     "s=a+b+c&beam=3&silent=encoder-1-1&silent-words=2&steps=1");
    wait_until("state.walk && isSettled()");
    run_script("element('train').scrollIntoView()");
    wait_until("training.view");
}

static const int widths[] = {390, 1366, 1920};

Test(page_accessible, fits_the_window)
{
    opened();
    for (int i = 0; i < 3; i++) {
        resize(widths[i]);
        cr_expect_leq((int)number_of("document.documentElement.scrollWidth"), widths[i]);
    }
    browser_close();
}

/* Words of keys stand upright above cells that may be narrower than a line of text. */
Test(page_accessible, has_narrow_columns)
{
    opened();
    for (int i = 1; i < 3; i++) {
        resize(widths[i]);
        /* At once, before the page sees that the window has another width. Words of one letter would not stand upright. */
        double excess =
            number_of("(() => { document.querySelectorAll('#map th.column').forEach(cell => { cell.className "
                      "= 'column'; cell.firstChild.textContent = 'word'; }); const size = SMALLEST_CELL * "
                      "parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; "
                      "element('map').firstChild.style.setProperty('--cell', `${size}px`); return "
                      "cells[0][1].getBoundingClientRect().width - size; })()");
        cr_expect_leq(excess, 1.0, "%d pixels: %g more", widths[i], excess);
    }
    browser_close();
}

Test(page_accessible, passes_axe)
{
    const char *path = getenv("QKV_AXE");
    size_t size;
    char *axe = path ? read_file(path, &size) : NULL;
    if (!axe) cr_skip_test("QKV_AXE does not name axe.min.js of axe-core");
    opened();
    run_script("(() => { %s\n; })()", axe);
    for (int i = 0; i < 6; i++) {
        resize(widths[i / 2]);
        run_script("setTheme(%s)", i % 2 ? "true" : "false");
        char *violations = value_of("axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
                                    "'wcag22aa', 'best-practice'] }).then(({ violations }) => "
                                    "violations.map(({ id, nodes }) => id + ': ' + nodes[0].html).join())");
        cr_expect_str_empty(violations, "%d pixels, %s: %s", widths[i / 2], i % 2 ? "dark" : "light",
                            violations);
    }
    browser_close();
}
