/* Settings that jemalloc reads at its start. Memory that was free for a minute is returned to the system; the
   default is ten seconds. A request of 1,000 candidates allocates and frees megabytes, and half of its page
   faults were for memory that had just been returned. */
const char* malloc_conf = "dirty_decay_ms:60000";
