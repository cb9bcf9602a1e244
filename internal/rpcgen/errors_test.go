package rpcgen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// faulty are specifications, each with the places and the beginnings of the errors in it.
var faulty = []struct{ name, src, want string }{
	{"undefined type", "struct a {\n\tint x;\n\tfoo y;\n};", "3:2 undefined type foo"},
	{"undefined constant", "typedef opaque x<MAX>;", "1:18 undefined constant MAX"},
	{"type as constant", "typedef int t; typedef int x[t];", "1:30 t is not a constant"},
	{"constant as type", "const c = 1; typedef c x;", "1:22 c is not a type"},
	{"text as number", `const c = "x"; typedef int x[c];`, "1:30 the constant c is a text"},
	{"constant of itself", "const a = b;\nconst b = a;", "1:7 the value of a depends on itself"},
	{"wrong tag", "enum e { A };\ntypedef struct e x;", "2:9 e is no struct but the enum of t.x:1:6"},
	{"twice declared", "const a = 1;\nstruct a { int x; };", "2:8 a is declared already, at t.x:1:7"},
	{"enum name twice", "enum a { X };\nenum b { X };", "2:10 X is declared already, at t.x:1:10"},
	{"enum value too large", "enum a { X = 2147483648 };", "1:10 X is 2147483648, but must lie between"},
	{"enum value after the last", "enum a { X = 2147483647,\n Y };", "2:2 Y is 2147483648, but must"},
	{"member twice", "struct s {\n int x;\n int x; };", "3:6 x is declared already in struct s, in line 2"},
	{"arm twice", "union u switch (int x) {\ncase 1: int y;\ncase 2: int y; };", "3:13 y is declared already in union u"},
	{"case of another name of a value", "enum e { A, B = 0 };\nunion u switch (e x) {\ncase A: void;\ncase B: int y; };", "4:6 case B: the value 0 is that of the case in line 3"},
	{"typedef twice, not alike", "typedef int a<3>;\ntypedef int a<4>;", "2:13 a is declared already"},
	{"constant twice, not alike", "const A = 1;\nconst A = 2;", "2:7 A is declared already"},
	{"case twice", "union u switch (int x) {\ncase 1: void;\ncase 2: case 0x1: int y; };", "3:14 case 0x1: the value 1 is that of the case in line 2"},
	{"case out of range", "union u switch (unsigned x) {\ncase -1: void; };", "2:6 case -1 is -1, but must lie"},
	{"case not in enum", "enum e { A = 1 };\nunion u switch (e x) {\ncase 2: void; };", "3:6 case 2: enum e has no such value"},
	{"case not bool", "union u switch (bool x) { case 2: void; };", "1:32 case 2 is 2, but must lie between 0 and 1"},
	{"hyper discriminant", "union u switch (hyper x) { case 2: void; };", "1:23 the discriminant x is not an int"},
	{"array discriminant", "union u switch (int x<>) { case 2: void; };", "1:21 the discriminant x is not an int"},
	{"void discriminant", "union u switch (void) { case 2: void; };", "1:17 the discriminant of a union cannot be void"},
	{"default twice", "union u switch (int x) { case 1: void;\ndefault: void;\ndefault: int y; };", "3:1 union u has a second default"},
	{"no case", "union u switch (int x) { default: void; };", "1:7 union u has no case"},
	{"contains itself", "struct a { b x; };\nstruct b { a y[2]; };", "1:8 struct a contains itself"},
	{"union without an end", "union u switch (bool more) { case TRUE: u next; };", "1:7 union u contains itself"},
	{"unions without an end", "union u switch (int x) { case 1: struct { w next; } n; default: u more[2]; };\nunion w switch (int x) { case 1: u back; };", "1:7 union u contains itself"},
	{"pointer to itself", "typedef a *a;", "1:12 typedef a is a pointer to itself"},
	{"negative length", "typedef int x[-1];", "1:15 the length of x is -1, but must lie"},
	{"long bound", "typedef int x<0x100000000>;", "1:15 the bound of x is 4294967296, but"},
	{"long array", "typedef int row[0x10000];\ntypedef row all[0x10000];", "2:13 all has 17179869184 bytes or more"},
	{"void member", "struct s { void; };", "1:16 a struct has no members of type void"},
	{"no members", "struct s { };", "1:8 struct s has no members"},
	{"opaque without length", "struct s { opaque x; };", "1:19 opaque x wants a length"},
	{"string of a length", "struct s { string x[3]; };", "1:19 string x wants a bound"},
	{"optional string", "struct s { string *x; };", "1:19 opaque and string cannot be optional"},
	{"optional array", "struct s { int *x<>; };", "1:18 an array cannot be optional"},
	{"keyword as name", "struct s { int case; };", "1:16 expected the name of the member, found the keyword 'case'"},
	{"bad number", "const a = 08;", "1:11 08 is not a number"},
	{"bad binary number", "const a = 0b1;", "1:11 0b1 is not a number"},
	{"letters in number", "const a = 12ab;", "1:11 12ab is not a number"},
	{"no value", "const a = ;", "1:11 expected the value of the constant"},
	{"bad escape", `const a = "\q";`, `1:7 the text "\q" has an escape`},
	{"strange character", "const a = 1 $;", "1:13 the character \"$\" has no meaning"},
	{"open comment", "const a = 1; /* and", "1:14 the comment has no end"},
	{"open struct", "struct s {\n int x;", "1:8 struct s has no end"},
	{"no definition", "foo;", "1:1 expected const, typedef"},
	{"version of a program number twice", "program p { version v { void f(void) = 1; } = 1; } = 7;\nprogram q { version w { void f(void) = 1; } = 1; } = 7;", "2:47 version v of program p, which has the same number, has the number 1, too"},
	{"type of C", "struct s { time_t t; };", "1:12 undefined type time_t: it is of C's headers, and not of RPC language: say what it is here, as by -D 'time_t=int'"},
	{"structure of C", "struct s { struct sockaddr a; };", "1:12 undefined type sockaddr: it is of C's headers, and not of RPC language: declare it, as by typedef opaque sockaddr<128>;"},
	{"constant of C", "typedef string path<MAXPATHLEN>;", "1:21 undefined constant MAXPATHLEN: if a C header has it, give it a value, as by -D MAXPATHLEN=1024"},
	{"word of a dialect", "namespace a {\nstruct s { int x; };\n}", "1:1 expected const, typedef, enum, struct, union or program, found 'namespace': namespace is of xdrpp|3:1 expected const"},
	{"word that says nothing", "extern struct s { int x; };", "1:1 expected const, typedef, enum, struct, union or program, found 'extern': if extern is a word that says nothing here, -D extern= leaves it out"},
	{"version number twice", "program p {\nversion v { void f(void) = 1; } = 1;\nversion w { void f(void) = 1; } = 1; } = 7;", "3:35 version v has the number 1, too"},
	{"version name twice", "program p {\nversion v { void f(void) = 1; } = 1;\nversion v { void f(void) = 1; } = 2; } = 7;", "3:9 version v is declared already, in line 2"},
	{"procedure number twice", "program p { version v {\nvoid f(void) = 1;\nvoid g(void) = 1; } = 1; } = 7;", "3:16 procedure f has the number 1, too"},
	{"procedure name twice", "program p { version v {\nvoid f(void) = 1;\nint f(int) = 2; } = 1; } = 7;", "3:5 procedure f is declared already, in line 2"},
	{"negative program number", "program p { version v { void f(void) = 1; } = 1; } = -7;", "1:54 the number of p is -7"},
	{"undefined argument", "program p { version v { void f(foo) = 1; } = 1; } = 7;", "1:32 undefined type foo"},
	{"void and another", "program p { version v { void f(int, void) = 1; } = 1; } = 7;", "1:37 void cannot be one of several"},
	{"array as argument", "program p { version v { void f(int<>) = 1; } = 1; } = 7;", "1:35 an array cannot be the argument"},
	{"opaque as result", "program p { version v { opaque f(void) = 1; } = 1; } = 7;", "1:25 opaque cannot be the result"},
	{"struct as argument", "program p { version v { void f(struct { int x; } a) = 1; } = 1; } = 7;", "1:32 the argument cannot declare its type"},
	{"argument twice", "program p { version v { void f(int a, int a) = 1; } = 1; } = 7;", "1:43 procedure f has two arguments a"},
	{"no procedure", "program p { version v { } = 1; } = 7;", "1:21 version v has no procedure"},
	{"no version", "program p { } = 7;", "1:9 program p has no version"},
	{"endif alone", "#endif", "1:1 #endif without #if"},
	{"open if", "#ifdef X\n", "1:1 the condition has no end"},
	{"second else", "#ifdef X\n#else\n#else\n#endif", "3:1 #else after #else"},
	{"bad condition", "#if 1 +\n#endif", "1:1 in the condition: a number or name is missing"},
	{"bad condition that does not count", "#if 0 && (1 +)\n#endif", "1:1 in the condition: a number or name is missing"},
	{"division that counts", "#if 1 && 1 / 0\n#endif", "1:1 in the condition: division by zero"},
	{"division by zero", "#if 1 / 0\n#endif", "1:1 in the condition: division by zero"},
	{"macro with parameters", "#define f(x) x", "1:1 f has parameters"},
	{"unknown directive", "  #foo", "1:3 the preprocessor has no #foo"},
	{"error", "#error not so", "1:1 #error not so"},
	{"no includes", `#include "a.x"`, "1:1 a.x cannot be included here"},
	{"several", "struct a { foo x; };\nconst b = ;\nstruct c { bar y; int; int z };\nenum d { E = 1\n F };\nconst G = 1",
		"1:12 undefined type foo|2:11 expected the value|3:22 expected the name of the member, found ';'|5:2 expected '}'|6:12 expected ';'"},
	{"several members", "struct a {\n int;\n foo;\n int ok;\n string bad;\n};\nconst x y;",
		"2:5 expected the name|3:5 expected the name|5:9 string bad wants|7:9 expected '='"},
	{"after a lost brace", "struct a {\n int x;\nstruct b { int y; };\nstruct c { d z; };", "1:8 struct a has no end|3:1 a struct within a declaration has no name|4:1 a struct within"},
}

func TestErrors(t *testing.T) {
	for _, test := range faulty {
		t.Run(test.name, func(t *testing.T) {
			_, err := Generate("t.x", []byte(test.src), Options{Package: "p"})
			var list ErrorList
			if !errors.As(err, &list) {
				t.Fatalf("error %v, want %s", err, test.want)
			}
			var got []string
			for _, e := range list {
				got = append(got, fmt.Sprintf("%d:%d %s", e.Line, e.Col, e.Msg))
			}
			want := strings.Split(test.want, "|")
			for i, w := range want {
				if len(got) != len(want) || !strings.HasPrefix(got[i], w) {
					t.Fatalf("errors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// TestErrorText: an error shows the line and the place; a long list is cut.
func TestErrorText(t *testing.T) {
	_, err := Generate("dir/t.x", []byte("struct a {\n\tint \tx[foo];\n};"), Options{Package: "p"})
	want := "dir/t.x:2:9: undefined constant foo: if a C header has it, give it a value, as by -D foo=1024\n\t\tint \tx[foo];\n\t\t    \t  ^"
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	src := strings.Repeat("foo;\n", MaxErrors+5)
	_, err = Generate("t.x", []byte(src), Options{Package: "p"})
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 5 more errors") {
		t.Errorf("error\n%v\nwant 5 more in the end", err)
	}
}

func TestBadOptions(t *testing.T) {
	for _, opt := range []Options{{}, {Package: "func"}, {Package: "_"}, {Package: "p", Defines: map[string]string{"1": ""}}} {
		if _, err := Generate("t.x", nil, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
}
