# cmake -DIN=FILE -DOUT=FILE.c -DSYMBOL=NAME -DHEADER=PATH -P embed.cmake
# Writes C source that defines `const unsigned char NAME[]`, the file with a 0 behind it, and `const size_t NAME_bytes`, without
# that 0. Without IN the array has the 0 alone. HEADER declares both.
set(hex "")
set(bytes 0)
if(IN)
  file(READ "${IN}" hex HEX)
  file(SIZE "${IN}" bytes)
endif()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," list "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" list "${list}")
file(WRITE "${OUT}" "#include \"${HEADER}\"\n\n_Alignas(16) const unsigned char ${SYMBOL}[] = {\n${list}0};\n"
     "const size_t ${SYMBOL}_bytes = ${bytes};\n")
