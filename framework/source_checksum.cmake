# Writes the header OUTPUT with a checksum of the files that the lines of LIST name, relative to FOLDER.
file(STRINGS ${LIST} names)
set(checksums "")
foreach(name IN LISTS names)
    file(SHA256 ${FOLDER}/${name} checksum)
    string(APPEND checksums "${name} ${checksum}\n")
endforeach()
string(SHA256 checksum "${checksums}")
string(SUBSTRING ${checksum} 0 8 checksum)
file(WRITE ${OUTPUT} "/* Of all source files of the library: two builds of the same sources compute the same bits. */\n"
    "#define QKV_SOURCE_CHECKSUM \"${checksum}\"\n")
