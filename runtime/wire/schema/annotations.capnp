@0x92d70d362948687b;
# Annotations of the schemas of this folder. The message generator (runtime/wire/generator) makes the
# C++ structs and their conversion from the schemas; runtime/wire/json_schema.cc makes the HTTP bodies.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schema");

annotation internal @0xa180aca20b223898 (field) :Void;
# The member is not part of the HTTP form: it is never written to JSON, and refused as unknown when
# read from it.

annotation ifAny @0xc3b1f05a92d7e846 (field) :Void;
# A member with its default value is omitted from the bytes. An empty list or text is also omitted from
# the JSON that is written.

annotation cppType @0xa33a8942d7f4af90 (struct, enum, field) :Text;
# A struct or an enum: the type of this name is written by hand, in a header that
# runtime/actor/messages.h includes; only its conversion is generated.
# A field: the type of the member, if it differs from the type that follows from the schema. `wire` and
# `get` of runtime/wire/codec_fields.h convert it.

annotation cppMember @0xa7bc3628138b74d8 (field) :Text;
# The member of a struct that is written by hand, if it is not the field's name in snake_case.
# $Cxx.name renames a field in all of C++.

annotation cppDefault @0xc9a04e5174315676 (field) :Text;
# The member's default value in C++, if it differs from the default value of the bytes. The latter can
# never change, as the bytes hold the difference to it.

annotation cppMembers @0xb4df4b4262e8c136 (struct) :Text;
# Further members of the struct, as C++.
