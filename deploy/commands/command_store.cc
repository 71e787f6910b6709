// `troupe check`, `backup` and `restore`: operations on a data folder.
#include <iostream>

#include "deploy/commands/commands.h"
#include "deploy/node/control_socket.h"
#include "deploy/reports/table.h"
#include "runtime/coordination/file_coordination.h"
#include "runtime/store/store_backup.h"
#include "runtime/store/store_check.h"

namespace troupe::deploy {

namespace {

namespace fs = std::filesystem;

void require_folder(const fs::path& folder) {
  if (fs::is_directory(folder)) return;
  throw std::runtime_error(folder.string() + ": there is no such folder; expected the data folder of a node");
}

// Prints damage of the coordination file. Returns true if there is none.
bool is_coordination_whole(const fs::path& data_dir) {
  try {
    check_coordination(data_dir / "coordination");
    return true;
  } catch (const CoordinationDamage& damage) {
    std::cout << "damaged: " << damage.what() << "\n";
    return false;
  }
}

constexpr const char* coordination_damaged =
    "damaged: the coordination file, which says what is served; set store.on_damage: start to serve without "
    "it\n";

int run_check(const fs::path& data_dir) {
  require_folder(data_dir);
  const StoreCheck check = check_data_folder(data_dir);
  const bool coordinated = is_coordination_whole(data_dir);
  if (!check.exists) {
    std::cout << data_dir.string() << ": " << (coordinated ? "there is no store\n" : coordination_damaged);
    return coordinated ? 0 : 1;
  }
  Table table({{"kind"},
               {"files", Table::Align::right},
               {"bytes", Table::Align::right},
               {"damaged", Table::Align::right}});
  for (const auto& [name, kind] : check.kinds)
    table.row({name, std::to_string(kind.files), std::to_string(kind.bytes), std::to_string(kind.damaged)});
  table.print(std::cout);
  for (const StoreDamage& damage : check.damage) std::cout << "damaged: " << describe(damage) << "\n";
  for (const StoreLoss& loss : check.lost_tail)
    std::cout << "acknowledged and lost: " << describe(loss) << "\n";
  if (check.is_whole() && !coordinated) {
    std::cout << data_dir.string() << ": " << coordination_damaged;
    return 1;
  }
  if (check.is_whole()) {
    std::cout << data_dir.string() << ": the store is undamaged (pages of saved blocks are checked when they "
              << "are read)\n";
    return 0;
  }
  std::cout << data_dir.string() << ": damaged; "
            << (check.only_blocks() ? "the next start drops the saved blocks and computes them again\n"
                : check.only_mark() ? "the next start writes the mark of acknowledged writes anew\n"
                                    : "`troupe restore` a backup into a new folder, or start with "
                                      "store.on_damage: start to serve the undamaged rows\n");
  return 1;
}

int run_backup(const fs::path& data_dir, const fs::path& to) {
  require_folder(data_dir);
  std::uint64_t bytes = 0;
  if (const StoreCopy copy(data_dir); copy.is_there()) {
    bytes = make_backup(copy.folder(), data_dir, to);
  } else {
    const fs::path made = data_dir / "backup.copy";
    fs::remove_all(made);
    {
      Store store(data_dir);
      if (const auto failure = store.copy_to(made)) throw StoreError(failure->fault, failure->why);
    }
    bytes = make_backup(made, data_dir, to);
    fs::remove_all(made);
  }
  std::cout << to.string() << ": a backup of " << data_dir.string() << ", " << bytes << " bytes\n";
  return 0;
}

int run_restore(const fs::path& from, const fs::path& data_dir) {
  require_folder(from);
  restore_backup(from, data_dir);
  std::cout << data_dir.string() << ": restored from " << from.string()
            << "; version numbers continue far above those of the backup\n";
  return 0;
}

}  // namespace

void add_check(Command app) {
  auto data_dir = std::make_shared<std::string>();
  Command command =
      app.add_command("check", "Check the files of a data folder for damage; no process may serve it");
  command.add_option("data-dir", *data_dir, "Data folder (node.data_dir)").required();
  command.runs([data_dir] { return run_check(*data_dir); });
}

void add_backup(Command app) {
  auto data_dir = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  Command command =
      app.add_command("backup", "Copy profiles and catalog of a data folder; a process may serve it");
  command.add_option("data-dir", *data_dir, "Data folder (node.data_dir)").required();
  command.add_option("to", *to, "Folder of the backup, empty or new; best on another disk").required();
  command.runs([data_dir, to] { return run_backup(*data_dir, *to); });
}

void add_restore(Command app) {
  auto from = std::make_shared<std::string>(), data_dir = std::make_shared<std::string>();
  Command command = app.add_command("restore", "Make a data folder from a backup");
  command.add_option("from", *from, "Folder of the backup").required();
  command.add_option("data-dir", *data_dir, "Data folder, empty or new").required();
  command.runs([from, data_dir] { return run_restore(*from, *data_dir); });
}

}  // namespace troupe::deploy
