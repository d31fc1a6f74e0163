# SPDX-License-Identifier: MIT OR Apache-2.0
# ruff: noqa: E501 - templates are written as models ship them, in long lines
"""Chat templates of bankml's own, one for each habit of the field and of the reference's engine."""

from __future__ import annotations

CHATML = """\
{%- if messages[0].role != 'system' %}
{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

PLAIN_LINES = """\
{% for m in messages %}
{{ m.role | capitalize }}: {{ m.content | trim }}

{% endfor %}
{% if add_generation_prompt %}
Assistant:
{%- endif %}
"""

HEADERS = """\
{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif -%}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' + message.tool_calls[0].function | tojson + "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{ message.content | tojson }}{% endif -%}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

INSTRUCTIONS = """\
{%- if messages[0]["role"] == "system" %}{%- set system = messages[0]["content"] %}{%- set rest = messages[1:] %}
{%- else %}{%- set rest = messages %}{%- endif %}
{{- bos_token }}
{%- for message in rest %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system is defined %}{{- "[INST] " + system + "\\n\\n" + message["content"] + " [/INST]" }}
        {%- else %}{{- "[INST] " + message["content"] + " [/INST]" }}{%- endif %}
    {%- elif message["role"] == "assistant" %}{{- " " + message["content"]|trim + eos_token }}
    {%- else %}{{- raise_exception("Only user and assistant roles, with an optional system first: " ~ message.role) }}
    {%- endif %}
{%- endfor %}
"""

NO_SYSTEM = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

THINKING = """\
{%- set ns = namespace(multi_step=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if message.role == "user" or message.role == "system" %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or reasoning_content) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' ~ tool_call.function.name ~ '", "arguments": ' }}
            {%- if tool_call.function.arguments is string %}{{- tool_call.function.arguments }}
            {%- else %}{{- tool_call.function.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

OPEN_THINK = """\
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"""

DATED = """\
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set system_message = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\nYou are Granite." %}{%- set loop_messages = messages %}{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + ' ' + datetime + ' ' + date_string + '<|end_of_text|>\\n' }}
{%- if documents %}{{- '<|start_of_role|>documents<|end_of_role|>' + documents | tojson + '\\n' }}{%- endif %}
{%- for message in loop_messages %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}
{%- endfor %}"""

GENERATION = """\
{% for message in messages %}{% if message.role == 'assistant' %}<|assistant|>
{% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}

{% else %}<|{{ message.role }}|>
{{ message.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""

TYPED_ONLY = """\
{% for message in messages %}{{ '<' ~ message.role ~ '>' }}{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}{{ raise_exception('Unknown part ' ~ part['type']) }}{% endif %}{% if not loop.last %}{{ ' | ' }}{% endif %}{% endfor %}</{{ message.role }}>
{% endfor %}{{ '<assistant>' if add_generation_prompt }}"""

TYPED_OR_TEXT = """\
{%- macro content_of(content) -%}
{%- if content is string -%}{{ content }}
{%- elif content is iterable -%}{%- for part in content if part.type == 'text' -%}{{ part.text }}{%- endfor -%}
{%- elif content is none -%}(none){%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
[{{ loop.index }}/{{ loop.length }} {{ message.role }}]{{ content_of(message.content) }}{{ '' if loop.last else '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '\\n[assistant]' }}{% endif -%}"""

TOOLS = """\
{%- macro render_type(spec, depth=0) -%}
{%- if spec.type == 'object' -%}{ {%- for name, sub in spec.properties.items() %} {{ name }}: {{ render_type(sub, depth + 1) }}{{ ',' if not loop.last }}{% endfor %} }
{%- else -%}{{ spec.type | default('any') }}{{ ' = ' ~ spec.default if spec.default is defined }}{%- endif -%}
{%- endmacro -%}
{%- if tools %}# Tools
{% for tool in tools %}## {{ tool.function.name }}({{ render_type(tool.function.parameters) }})
{{ tool.function.description | indent(2, true) }}
{{ tool | tojson(indent=2) }}
{{ tool.function.parameters.required | default([]) | join(', ') }}
{% endfor %}{% endif -%}
{%- for message in messages %}
<|{{ message.role }}|>{{ message.content or '' }}
{%- if message.tool_calls %}{% for call in message.tool_calls %}
-> {{ call.function.name }} {% for key, value in call.function.arguments | items %}{{ key }}={{ value | tojson }};{% endfor %} #{{ call.id }}
{%- endfor %}{% endif %}
{%- if message.role == 'tool' %} for {{ message.tool_call_id }}{{ ' by ' ~ message.name if message.name }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}
<|assistant|>{% endif %}"""

LOOPS = """\
{%- set ns = namespace(seen=[], total=0) -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}SYS{%- continue -%}{%- endif -%}
  {%- if loop.index > 5 -%}...{%- break -%}{%- endif -%}
  {%- set ns.total = ns.total + message.content | length -%}
  {%- set carried = (carried | default('')) ~ message.role[0] -%}
  {{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}
  {%- if loop.previtem is defined %} after {{ loop.previtem.role }}{% endif -%}
  {%- if loop.nextitem %} before {{ loop.nextitem.role }}{% endif %} {{ carried }}
{% else -%}nobody{%- endfor -%}
{{ ns.total }} {{ carried is defined }}
{%- for m in messages if m.role == 'user' -%}{{ '\\n' }}{{ loop.index }}.{{ m.content }}{%- else -%}no user{%- endfor -%}
{%- for key, value in messages[0].items() -%}{{ '\\n' ~ key ~ '=' }}{{ value }}{%- endfor -%}
{%- for key in messages[0] -%}{{ key }},{%- endfor -%}
{%- for x in [] -%}x{%- else -%}(empty){%- endfor -%}
{%- for x in nothing -%}x{%- else -%}(undefined){%- endfor -%}
{%- for x in [1, 2] -%}{% continue %}{%- else -%}(all skipped){%- endfor -%}
"""

STRINGS = """\
{%- set s = messages[-1].content ~ '' -%}
{{ s | upper }}|{{ s | lower }}|{{ s | title }}|{{ s | capitalize }}|{{ ('a b' ~ s) | title }}|{{ ('x' + s) | capitalize }}
{{ s | length }}|{{ s[0] }}|{{ s[-1] }}|{{ s[1:4] }}|{{ s[::-1] | length }}|{{ s[-3:] }}|{{ s[:-1] }}
{{ s.split() | tojson }}|{{ s.split(' ', 1) | tojson }}|{{ s.rsplit(' ', 1) | tojson }}|{{ s.strip() }}|{{ s.lstrip('H') }}|{{ s.rstrip('?.') }}
{{ s.replace('o', '0') }}|{{ s | replace('', '-') }}|{{ s.startswith('H') }}|{{ s.endswith('o') }}|{{ 'ell' in s }}|{{ 'x' * 3 }}|{{ s * 0 }}
{{ 'a{}b{}c'.format(s, 5) }}|{{ s | indent(3) }}|{{ s | indent(width='> ', first=true, blank=true) }}|{{ s | string | tojson }}
{{ s | tojson(ensure_ascii=true) }}|{{ '42' | int + 1 }}|{{ '1.50x' | float }}|{{ 'zz' | int(7) }}|{{ 'ff' | int(base=16) }}
{{ 'one' 'two' }}|{{ 'é' | upper }}|{{ 'é' | length }}|{{ "q'q" }}{{ ['a', "b'c", 1.0, none, true] | string }}"""

NUMBERS = """\
{{ 7 / 2 }}|{{ 7 % 3 }}|{{ -7 % 3 }}|{{ 2 * 3.5 }}|{{ 1 + true | int }}|{{ 10 / 5 }}|{{ 1 / 3 }}|{{ 0 / 1 }}
{{ 9007199254740993 + 1 }}|{{ 1.0 is defined }}|{{ 3 - -1 }}|{{ -3 | abs }}|{{ 3.7 | int }}|{{ [1, 2.5, true, none] | tojson }}|{{ 1.0 }}|{{ 0.1 + 0.2 }}
{{ range(3) }}|{{ range(1, 9, 3) | list | tojson }}|{{ range(3, 0, -1) | join('-') }}|{{ 5 is odd }}{{ 4 is even }}{{ 9 is divisibleby(3) }}{{ 5 is eq(5.0) }}
{{ 1 == 1.0 }}{{ 1 == true }}{{ '1' == 1 }}{{ none == false }}{{ [] == [] }}{{ [[1]] == [[1]] }}{{ {'a': 1} == {'a': 1} }}{{ 2 in [1, 2] }}{{ 'k' in {'k': none} }}
{{ [3, 1, 2] | sort | join }}{{ ['b', 'A'] | sort(reverse=true) | join }}{{ [1, 2] | max }}{{ [] | min }}{{ {'b': 1, 'a': 2} | dictsort | tojson }}{{ [1, 2, 3] | reverse | list | first }}
{{ messages | length }}"""

TRUTH = """\
{%- for value in [none, undefined_thing, '', 'x', 0, 1, 0.0, [], [0], {}, {'a': 1}, true, false, messages[0]] -%}
{{ loop.index }}:{{ 'T' if value else 'F' }}{{ value is defined }}{{ value is none }}{{ value is string }}{{ value is mapping }}{{ value is iterable }}{{ value is number }}{{ value is boolean }}
{{ value }}|{{ value | tojson if value is defined else 'U' }}|{{ value | default('D') if value is not mapping else 'M' }}|{{ value or 'or' }}|{{ value and 'and' }}|{{ not value }}
{% endfor -%}
{{ a.b.c is defined }}{{ messages[99] is defined }}{{ messages[0]['nokey'] is defined }}{{ 'x' ~ undefined_thing }}{{ undefined_thing | length }}{{ none ~ 'y' }}"""

WHITESPACE = """\
   {# a comment #}   first
  {%- set a = 1 -%}
  kept?

   {% if a %}
  inner
   {% endif %}
tail {{ a }}
{{- ' dash ' -}}
   x   {%- if true %} y {% endif -%}   z
{{ a }}	{% if a %}	{% endif %}end
{#- both -#}
   after comment
{% for m in messages %}
  * {{ m.role }}
{% endfor %}
last line
"""

CALLER = """\
{%- macro box(title, end='.') -%}[{{ title }}: {{ caller('in') if caller is defined else '-' }}{{ end }}]{%- endmacro -%}
{%- macro plain(a, b=2, c='three') -%}({{ a }},{{ b }},{{ c }}){%- endmacro -%}
{%- call(where) box('T', end='!') -%}body {{ where }} {{ messages | length }}{%- endcall -%}
{{ box('no caller') }}{{ plain(1) }}{{ plain(1, c=5) }}{{ plain(1, 9, 8) }}{{ plain(a=1, b=3) }}
{%- filter upper -%}shout{%- endfilter -%}
{% set block %}  set block {{ messages[0].role }} {% endset %}{{ block | trim | length }}
{%- set x, y = 1, [2, 3] -%}{{ x }}{{ y }}{%- set z = (4, 5) -%}{{ z | tojson }}{{ z | string }}
"""

FILTER_BLOCK = """\
{% filter upper %}{% for m in messages %}{{ m.role }} {% endfor %}é{% endfilter %}|{% filter replace('e', '3') %}{{ messages[0].role }}{% endfilter %}"""

SELECTING = """\
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}|{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | join(',') }}
{{ messages | map(attribute='name', default='anon') | join(' ') }}|{{ messages | selectattr('name') | list | length }}|{{ (messages | last).role }}|{{ (messages | first)['content'] | string | length }}
{{ messages | map(attribute='role') | list | tojson }}|{{ ['a', 'b'] | select('eq', 'a') | list | tojson }}|{{ [1, 2, 3] | reject('odd', 0) | list if false else 'skip' }}
{{ messages[1:] | length }}|{{ messages[-1].role }}|{{ messages[:2][0].role }}|{{ messages[::2] | length }}|{{ messages[0].get('content', 'x') is string }}{{ messages[0].get('zz', 'dflt') }}{{ messages[0].get('zz') }}
{{ messages[0].keys() | list | tojson }}|{{ messages[0] | length }}|{{ dict is defined }}"""

RAISES_LATE = """\
{%- for m in messages -%}
{%- if m.content is not string -%}{{ raise_exception('content of ' ~ m.role ~ ' must be text') }}{%- endif -%}
{%- if 'error' in m.content or 'Bye' in m.content -%}
{{ raise_exception("told to fail at " ~ loop.index ~ " — é") }}
{%- endif -%}{{ m.content }}{{ '\\n' }}
{%- endfor -%}"""

BAD_FILTER = """{% for m in messages %}{{ m.role }}{% if m.role == 'system' %}{{ m.content | nosuchfilter(1) }}{% endif %}{% if m.role == 'tool' %}{{ m.content is nosuchtest }}{% endif %}{% endfor %}"""

BAD_TYPES = """\
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}{{ m.content + 1 - 1 }}{%- elif m.role == 'system' -%}{{ m.missing.deeper.still }}{{ m.missing() }}
{%- elif m.content | length > 40 -%}{{ m.content.nomethod() }}{%- elif m.content == '' -%}{{ {'a': [1]}[m] }}{%- else -%}{{ m.role ~ m.content }}{%- endif -%}
{%- endfor -%}"""

REASONING_FIELD = """\
{%- for m in messages -%}
<|{{ m.role }}|>
{%- if m.reasoning_content and (preserve_thinking | default(false) or loop.last) -%}<reason>{{ m.reasoning_content }}</reason>{%- endif -%}
{{ m.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{ '<reason>' if enable_thinking else '<reason></reason>' }}{%- endif -%}"""

BRACKET_THINK = """\
{%- for m in messages -%}
{{ '[' ~ m.role | upper ~ '] ' }}
{%- if m.role == 'assistant' and m.reasoning_content is defined -%}[THINK]{{ m.reasoning_content }}[/THINK]{%- endif -%}
{{ m.content }}{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}[ASSISTANT] {% endif -%}"""

EFFORT = """\
{%- set effort = reasoning_effort | default('medium') -%}
Effort {{ effort }} {{ reasoning_strength | default('-') }} {{ thinking | default('unset') }} {{ custom | tojson if custom is defined else '{}' }} {{ clear_thinking }}{{ drop_thinking }}{{ truncate_history_thinking }}{{ preserve_thinking }}{{ preserve_reasoning }}
{%- for m in messages %}
{{ m.role }}: {{ m.content }}
{%- endfor %}
{{ '>' if add_generation_prompt else '' }}"""

CHANNELS = """\
{%- for m in messages -%}
<|start|>{{ m.role }}{% if m.thinking is defined %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>assistant{% endif %}<|message|>{{ m.content }}{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""

BOXED_MINISTRAL = """\
{{- bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}[SYSTEM_PROMPT]{% for part in m.content %}{{ part.text if part.type == 'text' else '[THINK]' ~ part.thinking ~ '[/THINK]' }}{% endfor %}[/SYSTEM_PROMPT]
{%- elif m.role == 'user' -%}[INST]{{ m.content if m.content is string else m.content | map(attribute='text') | join }}[/INST]
{%- elif m.role == 'assistant' -%}{% for part in m.content %}{% if part.type == 'thinking' %}[THINK]{{ part.thinking }}[/THINK]{% else %}{{ part.text }}{% endif %}{% endfor %}{% for call in m.tool_calls | default([]) %}[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments }}{% endfor %}{{ eos_token }}
{%- endif -%}
{%- endfor -%}"""

CALLS_NO_JSON = """\
{%- for m in messages -%}<{{ m.role }}>{{ m.content }}
{%- for call in m.tool_calls | default([]) %}{"call": "{{ call.function.name }}", args: {{ call.function.arguments | string }}}{% endfor -%}
{%- endfor -%}"""

CALLS_JSON = """\
{%- for m in messages -%}<{{ m.role }}>{{ m.content }}
{%- for call in m.tool_calls | default([]) %}{"call": "{{ call.function.name }}", "args": {{ call.function.arguments | tojson }}}{% endfor -%}
{%- endfor -%}"""

NEVER = """{{ raise_exception('never') }}"""

ONLY_DIALOGUES = """\
{%- if messages | length < 2 and messages[0].content == 'test' -%}{{ 'probe' }}{%- endif -%}
{%- for m in messages -%}{{ m.role }}>{{ m.content }}
{% endfor -%}"""

ENDS_WITH_EOS = """{{ bos_token }}{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}{% if not loop.last %}{{ eos_token }}{% endif %}{% endfor %}{{ eos_token }}"""

SAMPLES: dict[str, str] = {
    name.lower().replace("_", "-"): source
    for name, source in list(globals().items())
    if name.isupper() and isinstance(source, str) and name != "SAMPLES"
}
