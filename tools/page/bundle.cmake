# Puts the files that FROM/index.html names in place of its links, so that TO is one file.
#     <link rel="stylesheet" href="NAME">         becomes <style>
#     <script ... src="NAME"></script>            becomes <script ...>
file(READ ${FROM}/index.html html)
string(REGEX MATCHALL "<link rel=\"stylesheet\" href=\"[^\"]*\">" links "${html}")
foreach(link IN LISTS links)
    string(REGEX REPLACE ".*href=\"([^\"]*)\".*" "\\1" name "${link}")
    file(READ ${FROM}/${name} text)
    string(REGEX REPLACE "/\\*[^*]*\\*/" "" text "${text}")
    string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
    string(REGEX REPLACE "([:;,{]) +" "\\1" text "${text}") # no text of a style has any of these before a space
    string(REGEX REPLACE ";? *([{}])" "\\1" text "${text}")
    string(REPLACE "${link}" "<style>\n${text}</style>" html "${html}")
endforeach()
string(REGEX MATCHALL "<script[^>]* src=\"[^\"]*\"></script>" links "${html}")
foreach(link IN LISTS links)
    string(REGEX REPLACE ".* src=\"([^\"]*)\".*" "\\1" name "${link}")
    string(REPLACE " src=\"${name}\"></script>" ">" opening "${link}")
    file(READ ${FROM}/${name} text)
    string(REGEX REPLACE "\n *//[^\n]*" "" text "\n${text}") # lines that are comments, and comments behind code
    string(REGEX REPLACE "([;{},)]) // [^\n]*" "\\1" text "${text}")
    string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}") # indentation and empty lines: no text of a script has any
    string(REPLACE "${link}" "${opening}${text}</script>" html "${html}")
endforeach()
string(REPLACE "</script>\n<script>\n'use strict';\n" "" html "${html}") # one script of those in a row
file(WRITE ${TO} "${html}")
